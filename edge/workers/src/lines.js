// Lines of the log, in the schema of contract 48.

const levels = { 8: "ERROR", 4: "WARN", 0: "INFO" };

// lineOf returns a line of the log. It has the fields that edge/internal/server and log/slog
// write natively: time, level and msg first.
export function lineOf({ level, message, ...rest }) {
  const of = { time: new Date().toISOString(), level: levels[level] ?? "DEBUG", msg: message };
  return JSON.stringify({ ...of, ...rest, ...of }); // a guest cannot write another time, level or msg
}

// clientIn returns a client's address (4 or 16 bytes, or none) in the form of the log: whole, cut to its /24
// or /48, or "".
export function clientIn(how) {
  if (!(how in shows)) throw new Error(`LOG_CLIENT is none of ${Object.keys(shows).join(", ")}`);
  return (address) => (address.length === 0 ? "" : shows[how](address));
}

const shows = {
  off: () => "",
  whole: textOf,
  cut: (address) => {
    const kept = address.length === 4 ? 3 : 6;
    return `${textOf(address.map((b, i) => (i < kept ? b : 0)))}/${8 * kept}`;
  },
};

function textOf(address) {
  if (address.length === 4) return address.join(".");
  const groups = [];
  for (let i = 0; i < 16; i += 2) groups.push((address[i] << 8 | address[i + 1]).toString(16));
  return new URL(`http://[${groups.join(":")}]/`).hostname.slice(1, -1); // the short form (RFC 5952)
}
