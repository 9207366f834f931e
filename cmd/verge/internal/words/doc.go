// Package words has the wording that commands and configuration errors share: times, counts, and the distance
// between a mistyped name and a known one.
package words
