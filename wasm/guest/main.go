// Command guest is the core as a WASM module: a reactor for WASI preview 1,
// built by `make wasm`. What its exports promise is in ../abi/ABI.md.
package main

import "runtime/debug"

// main is not called: a reactor has exports instead.
func main() {}

// A guest's live data is small beside what a request allocates. Twice the
// heap saves a twentieth of a request's work, and costs little: a thousand
// requests waiting in two guests take 1 MiB more.
func init() { debug.SetGCPercent(200) }
