// Runs the due jobs of one partition, in one alarm. It is the counterpart of
// edge/internal/runner for a host that sleeps between requests.

const concurrency = 6; // concurrent deliveries: one event of the platform waits on at most 6 connections
const perDestination = 2; // concurrent deliveries to one destination
const timers = 16; // concurrent jobs without a destination
const batch = 32; // maximum number of claimed jobs that wait
const maxWait = 4_000; // ms that a claimed job waits for a slot; its lease must outlast this and a run
const delay = 5_000; // ms that a job is postponed after a long wait, plus up to half of it
const longest = 60_000; // ms after which the next alarm runs the rest

// most is the maximum number of jobs of one alarm. The platform limits the CPU of an alarm
// (limits.cpu_ms) and its requests, to 1,000 on some plans. A fetch that it rejects
// would use up one of an event's attempts.
const most = 200;

const millisecond = 1_000_000n;

// runDue claims and runs jobs until no task is due, until a minute is over, or until it
// has run the maximum number of jobs. In the last case it resolves to true, which means
// that the next alarm need not wait. It does not throw. outbox has
//   due()             whether a task is due
//   claim(n), run(job), defer(job, until), which may reject
//   now()             in BigInt nanoseconds
//   news()            a promise that resolves when due may have become true
export async function runDue(outbox, log) {
  const waiting = [];
  const running = new Set();
  const counts = new Map(); // number of running jobs, by destination
  const begin = outbox.now();
  let stop = false, taken = 0;

  const free = (destination) => destination === ""
    ? (counts.get("") ?? 0) < timers
    : (counts.get(destination) ?? 0) < perDestination && running.size - (counts.get("") ?? 0) < concurrency;
  const start = (job, work, what) => {
    counts.set(job.destination, (counts.get(job.destination) ?? 0) + 1);
    const failed = (e) => log({ level: 4, message: what, task: job.task.id, error: e.message });
    const done = work().catch(failed).finally(() => {
      running.delete(done);
      counts.set(job.destination, counts.get(job.destination) - 1);
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
        // No task was claimed: another runner has them, or the partition fails. It must
        // not be tried in a loop.
        if (jobs.length === 0) stop = true;
      } catch (e) {
        log({ level: 4, message: "cannot claim tasks, will try again", error: e.message });
        stop = true;
      }
    }
    for (let i = 0; i < waiting.length;) {
      const { job, since } = waiting[i];
      if (free(job.destination)) {
        start(job, () => outbox.run(job), "job outcome not recorded; the job will run again");
      } else if (stop || outbox.now() - since > BigInt(maxWait) * millisecond) {
        const wait = stop ? 0 : delay * (1 + Math.random() / 2);
        const until = outbox.now() + BigInt(Math.round(wait)) * millisecond;
        const returnLease = () => outbox.defer(job, until);
        start({ ...job, destination: "" }, returnLease, "lease not returned; it will expire");
      } else {
        i++;
        continue;
      }
      waiting.splice(i, 1);
    }
    const idle = running.size === 0 && waiting.length === 0;
    if (idle && (stop || taken >= most || !outbox.due())) return taken >= most;
    const moments = [...running];
    if (!stop && taken < most) moments.push(outbox.news());
    let timer;
    if (waiting.length > 0) moments.push(new Promise((done) => { timer = setTimeout(done, 250); }));
    await Promise.race(moments);
    clearTimeout(timer);
  }
}
