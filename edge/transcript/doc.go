// Package transcript records the requests to a core, its requests to the host and its responses. It replays
// a recording with a core that runs natively or as a guest. The clock and the randomness are fixed, so
// every core must send the same bytes. [Transcript.Replay] returns the first difference.
//
// [Read] reads a transcript, and a [Recorder] records one. The command `verge replay` runs Replay.
// testharness/corpus has transcripts of all operations of users, publishers and operators.
//
// # Format
//
// A transcript is JSON with one object per line, optionally compressed by gzip. It has the messages of
// wasm/ABI.md, so it can drive a host or a guest in any language. A message is a string in which each
// character, U+0000 to U+00FF, is one byte, so that people can read and search its text. The first line is
// the head:
//
//	{"transcript":1,"abi":1,"config":{…}}
//
// config is the argument of verge_config. Its key ring must be one for tests. Every other line is a step,
// one request from its entry to its response, with its events (two lines here, one in the file):
//
//	{"name":"…","now":"2026-11-20T22:10:00Z","seed":1,"entry":"handle","body":"…",
//	 "events":[{"kind":"get","body":"…","status":1}],"answer":"…"}
//
// name is a description. now is the clock's time during the step; it never decreases from one step to the
// next. The random bytes of a step are the SHA-256 of "verge transcript", seed and a count, one hash for
// each count from 0; seed and count are eight bytes, little endian. entry, kind and status have the values
// of the ABI; entry and kind are names. An event is an effect with its reply, or a notice. Events have
// their original order. The body of a log is text here: level, message and attributes, as written by the
// TextHandler of log/slog. answer is the result of the entry.
package transcript
