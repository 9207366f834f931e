// Package kvadapters holds the stores that the core can run on, one package
// each. All keep the promises of package kv, and package kvtest proves it;
// they differ in what outlives what.
//
//	             memory                        bolt
//	use it       in tests, in development      in a service of one process
//	instances    one                           one: the file is locked
//	atomicity    one lock per partition        one write at a time, shared by
//	                                           the commits that wait for it
//	reads        see every commit that         the same
//	             returned
//	kept         nothing                       every commit that returned:
//	                                           fsync before the answer
//	leases       in memory                     in memory: a restart frees them
//	expiry       by Config.Now, gone at once;  by Config.Now, gone at once;
//	             memory freed by later calls   space freed in the background
//	a full or    -                             ErrUnknown once, then
//	failed disk                                ErrUnavailable until reopened
//	holds        what fits in memory           what fits on a local disk; tasks
//	                                           that wait take no memory
//
// Choose memory where losing everything is fine, bolt everywhere else while
// one process is enough. bolt's file lies on a local disk: neither its lock
// nor its fsync can be relied on over a network file system. To copy it,
// stop the service or take a snapshot of the whole volume.
//
// memory and bolt do not implement kv.Meter: with one instance, rate counters
// can stay in that instance's memory.
//
// # Redis
//
// Choose Redis, or Valkey, where several instances share the work and speed
// counts: one server, Sentinel or a Cluster. A commit is one script and so
// atomic; it is as durable as the operator sets the server (appendonly,
// appendfsync), and a failover can forget the last commits, which
// Config.Replicas narrows and nothing closes. Items expire by the primary's
// clock, leases are on the server, instances share rate counters (kv.Meter).
// A server that is away is ErrUnavailable, a lost reply ErrUnknown; both pass
// without reopening once the server is back. Its operator sets noeviction and the rest that package redis lists; Open
// refuses a server that evicts. All data is in the servers' memory.
//
// # etcd
//
// Choose etcd where it runs already, where a few hundred verifications a
// second are enough, and where a failover may forget nothing: every commit
// that returned is on the disks of a majority. Any number of instances share
// it, rate counters (kv.Meter) included. Items expire by Config.Now, gone at
// once, and leave etcd a minute later. Leases of tasks outlast every restart.
// Its operator sets a quota and automatic compaction; package etcd says which.
package kvadapters
