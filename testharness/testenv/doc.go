// Package testenv is the environment of Verge's own tests and measurements: installed programs, the core as a
// WASM module, files of the repository, and a [Browser] that completes sessions.
//
// It may change with any release. Publishers use package testharness.
package testenv
