// Package stores starts real stores for tests: redis-server, a Redis Cluster,
// Sentinel, etcd. Each runs on loopback ports of its own with a directory of
// its own and ends with the test; Kill, Start, Freeze and Thaw are what happens
// to servers. Where the program is not installed, the test is skipped, or fails
// where skips are forbidden (see testharness.Program).
package stores
