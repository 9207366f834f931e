// Command guest is the core as a WASM module: a reactor for WASI preview 1,
// built by `make wasm`. What its exports promise is in ../abi/ABI.md.
package main

// main is not called: a reactor has exports instead.
func main() {}
