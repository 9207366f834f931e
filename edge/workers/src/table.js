// The tables of routes, with the functions of core/web and edge/internal/server.

// Table finds the route of a request.
export class Table {
  #routes;

  // routes  of one side, from routes.js
  constructor(routes) {
    this.#routes = routes.map((route) => {
      const [, before, name, after] = /^([^{]*)(?:\{([^}]*)\}(.*))?$/.exec(route.pattern);
      const words = { before, name: name?.replace("...", ""), rest: name?.endsWith("..."), after };
      return { maxURL: usualURL, ...route, ...words };
    });
  }

  // at returns the route that serves a request. Without such a route, it returns the first route that has the
  // path, with the usual limits.
  at(method, path) {
    const all = this.#routes.filter((route) => fits(route, path));
    return all.find((route) => route.methods.includes(method)) ??
      { ...all[0], maxBody: usualBody, maxURL: usualURL, waits: false };
  }

  // words are the segments of the patterns, which are not text of a caller.
  words() {
    const segments = this.#routes.flatMap(({ pattern }) => pattern.split("/"));
    return new Set(segments.filter((s) => s !== "" && !s.includes("{")));
  }
}

const usualBody = 16 * 1024; // bytes
const usualURL = 8 * 1024;

function fits({ before, name, rest, after }, path) {
  if (name === undefined) return path === before;
  if (rest) return path.startsWith(before) || path + "/" === before;
  if (!path.startsWith(before) || !path.slice(before.length).endsWith(after)) return false;
  const text = path.slice(before.length, path.length - after.length);
  return !text.includes("/") && (text !== "" || after !== "");
}

// logPath returns the path for the log, "" for none (contract 13). A path is the
// caller's text. So the log contains the pattern of the route, and the text of a
// placeholder only if it has the form of an id.
export function logPath({ before, name, after }, path) {
  if (name === undefined) return path;
  if (name === "" || !path.startsWith(before)) return "";
  let text = path.slice(before.length);
  if (after !== "" && text.endsWith(after)) text = text.slice(0, -after.length);
  return before + (idForms[name]?.(text) ? text : elided) + after;
}

// operatorsPath is logPath for the operators' API, where unknown paths are logged, too. It shows only known
// words and ids.
export function operatorsPath(words, path) {
  const segments = path.split("/");
  if (segments[0] !== "" || !words.has(segments[1])) return "";
  const last = segments.slice(mostSegments - 1).join("/");
  const shown = segments.length < mostSegments ? segments : [...segments.slice(0, mostSegments - 1), last];
  return shown.map((s, i) => (i === 0 || words.has(s) || isItem(s) || isSession(s) ? s : elided)).join("/");
}

const elided = "…";
const mostSegments = 7;

export const uuid = /^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$/;

const isItem = (text) => uuid.test(text.replace(/^evt_/, "").replace(/^int_/, ""));
const isSession = (text) => /^svc_sess_[A-Za-z0-9_-]{60,200}$/.test(text) && !text.slice(9).includes("svc_");

// The endpoints of OpenID Connect consist of words, and a token does not.
const isWords = (text) => /^[a-z.\/-]{0,40}$/.test(text);

// idForms are the forms of ids, by the placeholders for them.
const idForms = { session: isSession, id: isItem, endpoint: isWords };
