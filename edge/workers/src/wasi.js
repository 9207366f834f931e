// The part of WASI preview 1 that the guest imports. It has no files, no arguments
// and no environment. Standard output and standard error go to print.

const success = 0, badf = 8, inval = 28, nosys = 52;

// Exit is thrown when the guest ends itself.
export class Exit extends Error {
  constructor(code) {
    super(`it has exited with ${code}`);
  }
}

// wasi returns the import object. memory returns the guest's memory, clock has wall
// and mono, in BigInt nanoseconds, and print takes text.
export function wasi(memory, clock, print) {
  const view = () => new DataView(memory().buffer);
  const text = new TextDecoder();
  let slept = 0n;

  // draw returns n random bytes, each of them only once. It draws many at a time,
  // because the guest needs a few several times in each request.
  const drawn = new Uint8Array(1024);
  let left = 0;
  const draw = (n) => {
    if (n > left) {
      crypto.getRandomValues(drawn);
      left = drawn.length;
    }
    left -= n;
    const given = drawn.slice(left, left + n);
    drawn.fill(0, left, left + n);
    return given;
  };

  const none = (count, size) => {
    view().setUint32(count, 0, true);
    view().setUint32(size, 0, true);
    return success;
  };

  return {
    random_get(at, n) {
      const out = new Uint8Array(memory().buffer, at, n);
      if (n <= drawn.length) {
        out.set(draw(n));
        return success;
      }
      for (let done = 0; done < n; done += 65536) { // the maximum of one call
        crypto.getRandomValues(out.subarray(done, done + 65536));
      }
      return success;
    },

    // Both clocks do not advance while an export runs. The host reads its clock before.
    clock_time_get(id, _precision, out) {
      if (id > 1) return inval;
      view().setBigInt64(out, id === 0 ? clock.wall : clock.mono + slept, true);
      return success;
    },

    fd_write(fd, iovs, n, out) {
      if (fd !== 1 && fd !== 2) return badf;
      const v = view();
      let written = 0, all = "";
      for (let i = 0; i < n; i++) {
        const at = v.getUint32(iovs + 8 * i, true), length = v.getUint32(iovs + 8 * i + 4, true);
        all += text.decode(new Uint8Array(memory().buffer, at, length));
        written += length;
      }
      print(all);
      v.setUint32(out, written, true);
      return success;
    },

    // No event can occur while the guest waits, so a wait ends immediately, and the monotonic clock advances
    // by the time of the wait.
    poll_oneoff(subscriptions, events, n, out) {
      const v = view();
      let shortest = null, fired = 0;
      for (let i = 0; i < n; i++) {
        const s = subscriptions + 48 * i;
        if (v.getUint8(s + 8) !== 0) continue; // not a clock
        const absolute = v.getUint16(s + 40, true) & 1;
        let timeout = v.getBigUint64(s + 24, true);
        if (absolute) timeout -= v.getUint32(s + 16, true) === 0 ? clock.wall : clock.mono + slept;
        if (shortest === null || timeout < shortest) shortest = timeout;
        const e = events + 32 * fired++;
        v.setBigUint64(e, v.getBigUint64(s, true), true);
        v.setUint16(e + 8, success, true);
        v.setUint8(e + 10, 0);
      }
      if (shortest === null) return nosys;
      if (shortest > 0n) slept += shortest;
      v.setUint32(out, fired, true);
      return success;
    },

    args_sizes_get: none,
    environ_sizes_get: none,
    args_get: () => success,
    environ_get: () => success,
    sched_yield: () => success,
    proc_exit(code) { throw new Exit(code); },

    fd_close: () => badf,
    fd_read: () => badf,
    fd_fdstat_get: () => badf,
    fd_fdstat_set_flags: () => badf,
    fd_prestat_get: () => badf,
    fd_prestat_dir_name: () => badf,
    path_open: () => badf,
    path_filestat_get: () => badf,
  };
}
