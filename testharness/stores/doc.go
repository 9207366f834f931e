// Package stores starts real stores for Verge's own tests: redis-server, a Redis Cluster, Sentinel,
// PostgreSQL. It is not for publishers: package testharness needs no installed store.
//
// Each store listens on its own loopback ports, has its own directory and ends with the test. Kill, Start,
// Freeze and Thaw simulate failures of servers. If the program is not installed, the test is skipped, or
// fails if skips are not allowed (see testenv.Program).
package stores
