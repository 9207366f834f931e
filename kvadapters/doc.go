// Package kvadapters holds the stores that the core can run on, one package
// each. All keep the promises of package kv, and package kvtest proves it on
// the real thing; they differ in what outlives what.
//
// A program that knows its store imports that store's package alone. A program
// whose operator names the store imports this one: ParseAddress reads the name,
// Address.Open opens the store. Package kvcheck, which is `verge kv check URL`
// on the command line, runs those proofs that do no harm against an operator's
// own server.
//
// # Choose
//
//	tests, a demo                                        memory
//	Redis' behaviour in a test, with nothing installed   redis on miniredis
//	one process is enough                                bolt
//	several processes, and Redis or Valkey runs already  redis
//	more writes or memory than one Redis has             redis on a Cluster
//	a failover must never forget a used token            etcd, up to some hundred
//	                                                     verifications a second
//
// # What each promises
//
//	             memory            bolt               redis               etcd
//	processes    one               one: the file      any number          any number
//	                               is locked
//	atomicity    a lock per        one write at a     one script per      one transaction
//	             partition         time, shared by    commit, on one      per commit, in one
//	                               commits that wait  node                order for all
//	a commit     nothing           kill -9 and power  what appendonly     the loss of any
//	that                           loss: fsync        and appendfsync     minority of the
//	returned                       before the answer  say, see below      servers
//	survives
//	a failover   -                 -                  the last commits,   nothing
//	forgets                                           see below
//	leases       in memory         in memory: a       on the server       on the servers
//	are kept                       restart frees them
//	items        Config.Now        Config.Now         the clock of the    Config.Now of
//	expire by                                         primary             whoever asks
//	expired      freed by later    freed in the       freed by the        freed a minute
//	space is     calls             background         server              later by a sweep
//	rate limits  of the process    of the process     shared, in one      shared, by compare
//	                                                  step                and set
//	full, or     -                 ErrUnknown once,   ErrUnavailable      ErrUnavailable or
//	away                           then               until it is back    ErrUnknown until it
//	                               ErrUnavailable                         is back
//	                               until it is back
//	a lost       -                 -                  ErrUnknown          ErrUnknown
//	reply is
//	holds        what fits in      what fits on a     what fits in the    2 GiB, at most 8,
//	             memory            local disk         servers' memory     all in memory too
//
// Whatever a store answers, the core grants nothing that it does not know:
// ErrUnknown is looked up by the operation's ID, and denies until that is known.
//
// # memory
//
// Forgets everything with the process, used tokens included.
//
// # bolt
//
// The file lies on a local disk: neither its lock nor its fsync can be relied
// on over a network file system. There is nothing to set. To copy it, stop the
// service or take a snapshot of the whole volume.
//
// A disk that is full, read-only or reports an error needs nobody on Verge's
// side: reads go on, writes are refused, and every two seconds or sooner Verge
// tries whether the disk takes them again (it asks for 1 MiB of room), checks
// the file and goes on. Only what it cannot go on with ends the process, with
// exit code 1: a file that lacks commits that were acknowledged, that is
// damaged, that was replaced or that another process has taken. A file that is
// not there is waited for. The service does not start on a disk that cannot be
// written.
//
// # Redis and Valkey
//
// One server from 6.2, one watched by Sentinel, or a Cluster. Its operator sets
//
//	appendonly yes                 or a restart forgets
//	appendfsync always             or a power cut takes the last second
//	maxmemory-policy noeviction    or used marks vanish; another is refused
//	min-replicas-to-write 1        with replicas, and store.replicas = 1
//
// and the permissions that package redis lists. Replication is asynchronous: a
// failover can forget the last commits, and a result token that was used in
// those moments can be used once more within its five minutes. store.replicas
// makes each commit wait for so many replicas and deny where they do not
// answer; what then remains is a failover to a replica that was not among
// them. Nothing on Redis closes that; etcd has no such gap. The clocks of the
// servers may differ from Verge's by what results and outcomes can bear: a
// second is nothing, a minute shortens or lengthens what is kept by a minute.
//
// On a Cluster sessions are spread over 16 partitions (store.partitions), each
// on the node of its slot. The configuration is in a partition of its own, and
// so are the rate counters, that a request's counters change in one step: they
// are the load of one node. Give every primary a replica: while one is down and
// nobody has taken over, its sessions are refused, all requests if it holds the
// counters or the configuration, and the whole Cluster refuses if
// cluster-require-full-coverage is yes, as it is unless set. While a slot is
// moved, its partitions can answer ErrUnavailable until they have arrived.
//
// A Redis that lost everything has lost publishers, integrations and keys too:
// requests are then refused (401). Restart the instances, which put back what
// their configuration has, and create keys anew.
//
// # etcd
//
// One server or, to be worth it, three or five. Every commit that returned is
// on the disks of a majority; reads see every commit. Its operator sets a quota
// and automatic compaction, which package etcd names, and keeps the clocks of
// all instances together: expiry goes by theirs. Expect some hundred
// verifications a second, since every write waits for a majority's fsync.
//
// # A store that fails
//
// What a request asks of the store may take 5 s in all (store.budget); then it
// is answered 503 with Retry-After. One line in the log says that the store
// begins to fail at reads, commits, claims or rate counters, and why; one that
// it answers again, after how long and how many refusals. Metrics have both
// (verge_store_failing, verge_store_refused_total), and /healthz and /readyz
// say "degraded" with status 200 while it cannot be written: see package
// edge/server for what a probe should do about it, which is nothing.
//
// # Several instances
//
// All have the same key ring, configuration and number of partitions. The store
// keeps the set of keys in use, so that an instance with another ring does not
// start and one with an older ring waits (package core/keyset). What an
// instance schedules it runs itself, at once; the others look for what a dead
// one has left behind every two seconds times the number of partitions, at most
// every half a minute, and take it over when its lease is done: 29 seconds, or
// as much longer as webhooks.timeout is. The number of partitions is kept in
// the store and may only grow: in those that nobody looks at, events would
// wait for ever. A lease is proven in the commit that
// records the outcome, so an instance that was stopped meanwhile records
// nothing, and begins nothing that its lease does not outlast.
package kvadapters
