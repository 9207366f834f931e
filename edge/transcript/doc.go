// Package transcript keeps what a core was asked, what it asked for in turn and
// what it answered, and runs a core through it again: natively or as a guest.
// With the clock and the randomness fixed, both must ask and answer the same,
// byte for byte; Replay shows the first place where they do not.
//
// Read a transcript, or make one with a Recorder. `verge replay` is Replay on
// the command line, and testharness/corpus has transcripts of everything that
// users, publishers and operators do.
//
// # Format
//
// JSON, one object a line, packed by gzip or not. Messages are those of
// wasm/ABI.md, so that a host or a guest in any language can be driven with
// them as they stand; their bytes are strings whose characters, U+0000 to
// U+00FF, are the bytes: what is text in a message can be read and searched.
// The first line is the head:
//
//	{"transcript":1,"abi":1,"config":{…}}
//
// config is the argument of verge_config and has a key ring, which is for tests
// alone. Every other line is a step, one request from its entry to its answer:
//
//	{"name":"…","now":"2026-11-20T22:10:00Z","seed":1,"entry":"handle","body":"…","events":[…],"answer":"…"}
//	{"kind":"get","body":"…","status":1}
//
// name is for people. now is where the clock stands while the step lasts; it
// does not go back from one step to the next. Random bytes of the step are the
// SHA-256 of "verge transcript", seed and a count from 0, both as eight bytes,
// little endian, for as many counts as are needed. entry, kind and status are
// those of the ABI, the first two by name. An event is an effect with its reply
// or a notice, in the order in which they came; a log's body is text here: level,
// message and attributes, as log/slog's TextHandler writes them. answer is the
// result of the entry.
package transcript
