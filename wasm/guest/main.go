// Command guest is the core as a WASM module: a reactor for WASI preview 1, built by `make wasm`.
// ../ABI.md describes its exports.
package main

import "runtime/debug"

// main is not called, because a reactor has exports instead.
func main() {}

// The live data of a guest is small compared with a request's allocations. With twice the heap, a request
// takes a twentieth less work. The cost is small: a thousand requests waiting in two guests use 1 MiB more.
func init() { debug.SetGCPercent(200) }
