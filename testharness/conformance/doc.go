// Package conformance holds the service to its contract from outside, by HTTP,
// on every store and engine that it can run on. It has nothing but tests.
//
// By itself, `go test` here runs them on miniredis under the native core.
// VERGE_HARNESS_KV names another store (memory, bolt), VERGE_HARNESS_ENGINE
// another engine (wasm, workerd). TestEngines runs them on all of these and on
// real servers of Redis and PostgreSQL, and prints a table of engine and suite.
//
// SPEC_COVERAGE.md says which test proves which sentence of the contract.
package conformance
