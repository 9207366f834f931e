// Package transcript records what a core was asked, what the core asked its host for, and what it
// answered. It replays a recording with a core that runs natively or as a guest. The clock and the
// randomness are fixed, so every core must ask and answer the same, byte for byte. Replay shows the
// first difference.
//
// Read reads a transcript, and a Recorder makes one. `verge replay` is Replay on the command line.
// testharness/corpus has transcripts of everything that users, publishers and operators do.
//
// # Format
//
// A transcript is JSON with one object a line, packed by gzip or not. Its messages are those of
// wasm/ABI.md, so a host or a guest in any language can be driven with them. A message is a string
// in which each character, U+0000 to U+00FF, is one byte, so a person can read and search the text
// in it. The first line is the head:
//
//	{"transcript":1,"abi":1,"config":{…}}
//
// config is the argument of verge_config. It has a key ring, which must be one for tests. Every
// other line is a step, one request from its entry to its answer, with its events (two lines here,
// one in the file):
//
//	{"name":"…","now":"2026-11-20T22:10:00Z","seed":1,"entry":"handle","body":"…",
//	 "events":[{"kind":"get","body":"…","status":1}],"answer":"…"}
//
// name is for people. now is the time at which the clock stands during the step; it never goes back
// from one step to the next. The random bytes of a step are the SHA-256 of "verge transcript", seed
// and a count, one hash for each count from 0 on; seed and count are eight bytes, little endian.
// entry, kind and status are those of the ABI; entry and kind are names. An event is an effect with
// its reply, or a notice. Events are in the order in which they came. The body of a log is text
// here: level, message and attributes, as the TextHandler of log/slog writes them. answer is the
// result of the entry.
package transcript
