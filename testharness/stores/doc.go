// Package stores starts real stores for Verge's own tests: redis-server, a
// Redis Cluster, Sentinel, PostgreSQL. It is not for publishers: package testharness
// needs no store that has to be installed.
//
// Each store listens on loopback ports of its own, has a directory of its own
// and ends with the test. Kill, Start, Freeze and Thaw do to it what happens to
// servers. If the program is not installed, the test is skipped, or fails where
// skips are forbidden (see kit.Program).
package stores
