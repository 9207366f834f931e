// Package kit is what Verge's own tests and measurements need besides the
// harness: programs that are installed, the core as a WASM module, and sessions
// that are complete without anybody clicking.
//
// It is not for publishers, and may change with any release. Theirs is package
// testharness.
package kit
