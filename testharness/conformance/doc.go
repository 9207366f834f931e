// Package conformance tests the service against its contract from outside, by HTTP, on every supported store
// and engine. It contains only tests.
//
// Without settings, `go test` runs them here on miniredis under the native core. VERGE_HARNESS_KV names
// another store (memory, bolt), VERGE_HARNESS_ENGINE another engine (wasm, workerd). TestEngines runs them on
// all of these and on real servers of Redis and PostgreSQL, and prints a table of engine and suite.
//
// SPEC_COVERAGE.md lists the tests of each sentence of the contract.
package conformance
