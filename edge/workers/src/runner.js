// Runs what is due in one partition, in one alarm: edge/runner for a host that
// is woken and sleeps again.

const concurrency = 6; // deliveries at once: as many connections as the platform lets one event wait on
const perLane = 2; // of them, to one destination
const timers = 16; // jobs without a destination at once
const batch = 32; // jobs claimed and not begun
const maxWait = 4_000; // ms that a claimed job waits for its turn; its lease has to outlast this and a run
const putOff = 5_000; // ms until one that has waited too long is looked at again, and half as much again
const longest = 60_000; // ms after which the rest is left to the next alarm

// most is how many jobs one alarm takes. The platform grants it CPU
// (limits.cpu_ms) and requests to others, 1,000 where they are fewest; a fetch
// that it refuses would cost an event one of its attempts.
const most = 200;

const millisecond = 1_000_000n;

// runDue claims and runs until nothing is due, or until it has taken a minute or
// as many jobs as it may: then it resolves to true, since the next alarm need not
// wait. It does not throw. outbox has due(): whether something is due; claim(n),
// run(job) and defer(job, until), which all may reject; now() in BigInt
// nanoseconds; news(): a promise of the next moment at which due may have become
// true.
export async function runDue(outbox, log) {
  const waiting = [];
  const running = new Set();
  const lanes = new Map(); // jobs running, by lane
  const begin = outbox.now();
  let stop = false, taken = 0;

  const free = (lane) => lane === ""
    ? (lanes.get("") ?? 0) < timers
    : (lanes.get(lane) ?? 0) < perLane && running.size - (lanes.get("") ?? 0) < concurrency;
  const start = (job, work, what) => {
    lanes.set(job.lane, (lanes.get(job.lane) ?? 0) + 1);
    const done = work().catch((e) => log({ level: 4, message: what, task: job.task.id, error: e.message })).finally(() => {
      running.delete(done);
      lanes.set(job.lane, lanes.get(job.lane) - 1);
    });
    running.add(done);
  };

  for (;;) {
    const now = outbox.now();
    stop ||= now - begin > BigInt(longest) * millisecond;
    if (!stop && taken < most && waiting.length < batch && outbox.due()) {
      try {
        const { jobs } = await outbox.claim(Math.min(batch - waiting.length, most - taken));
        taken += jobs.length;
        for (const job of jobs) waiting.push({ job, since: outbox.now() });
        if (jobs.length === 0) stop = true; // somebody else's, or a partition that cannot: not in a loop
      } catch (e) {
        log({ level: 4, message: "cannot claim tasks, will try again", error: e.message });
        stop = true;
      }
    }
    for (let i = 0; i < waiting.length;) {
      const { job, since } = waiting[i];
      if (free(job.lane)) {
        start(job, () => outbox.run(job), "a job's outcome was not recorded, it will run again");
      } else if (stop || outbox.now() - since > BigInt(maxWait) * millisecond) {
        const wait = stop ? 0 : putOff * (1 + Math.random() / 2);
        const until = outbox.now() + BigInt(Math.round(wait)) * millisecond;
        start({ ...job, lane: "" }, () => outbox.defer(job, until), "a lease was not given back, it will run out");
      } else {
        i++;
        continue;
      }
      waiting.splice(i, 1);
    }
    if (running.size === 0 && waiting.length === 0 && (stop || taken >= most || !outbox.due())) return taken >= most;
    const moments = [...running];
    if (!stop && taken < most) moments.push(outbox.news());
    let timer;
    if (waiting.length > 0) moments.push(new Promise((done) => { timer = setTimeout(done, 250); }));
    await Promise.race(moments);
    clearTimeout(timer);
  }
}
