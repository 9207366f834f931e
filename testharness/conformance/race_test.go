//go:build race

package conformance_test

// raced is whether these tests run under the race detector.
const raced = true
