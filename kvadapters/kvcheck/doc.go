// Package kvcheck proves on an operator's own store what Verge relies on. `verge kv check` is this package
// on the command line.
//
// Run tries the promises of package kv that can be tried without harm: that a write happens as a
// whole or not at all, that one of many contenders wins, that a read sees every write before it,
// and order, expiry, leases and rate counters. It measures round trips, expiry and clocks. It names
// what it cannot prove, such as what a restart loses, and what the servers' own settings say about
// that. On PostgreSQL it also says whether a signal of one instance can reach another.
//
// The store may be in use. A check writes only in a scratch place of its own, beside the data of Verge and
// within the same permissions, and removes it at the end, also after a failure or when its context ends. A
// check of Bolt does not open the file: it makes a directory beside it, and so shows what that disk can do. A
// check sends some thousand small requests and takes about five seconds, or longer if the store is far away.
//
// The proofs are in package kvadapters/internal/promises. Adapters run the same ones in their tests.
package kvcheck
