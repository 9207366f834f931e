// Package kvcheck checks on an operator's own store the promises on which Verge relies. Use [Run], or the
// command `verge kv check`.
//
// Run tries the promises of package kv that can be tried without harm: a write is executed completely or
// not at all, one of many contenders wins, a read sees every earlier write, and order, expiry, leases and
// rate counters. It measures round trips, expiry and clocks. It lists the promises that it cannot prove,
// such as the loss in a restart, with the servers' own settings for them. On PostgreSQL it also reports
// whether a signal of one instance can reach another.
//
// The store may be in use. A check writes only in a separate scratch place, next to the data of Verge and
// within the same permissions, and removes it at the end, even after a failure or when its context ends. A
// check of Bolt does not open the file: it creates a directory next to it, and so tests the same disk. A
// check sends some thousand small requests and takes about five seconds, or longer if the store is far
// away.
//
// The proofs are in package kvadapters/internal/promises. Adapters run the same proofs in their tests.
package kvcheck
