// Package kvadapters lists the stores for the core, one package for each. All keep the promises of package
// kv, which package kvtest checks on real servers. They differ in the failures that they survive.
//
// A program with one fixed store imports only that store's package. A program whose operator chooses the
// store imports this one: [ParseAddress] parses the name, [Address.Open] opens the store. Package kvcheck,
// the command `verge kv check URL`, runs the harmless checks against an operator's own server.
//
// # Which one to use
//
//	tests, a demo                                        memory
//	Redis' behaviour in a test, with nothing installed   redis on miniredis
//	one process is enough                                bolt
//	several processes, and Redis or Valkey runs already  redis
//	more writes or memory than one Redis has             redis on a Cluster
//	several processes, and PostgreSQL runs already       postgres
//	a failover must never lose that a token was used     postgres with a synchronous replica
//
// # Guarantees of each store
//
//	             memory            bolt               redis               postgres
//	processes    one               one: the file      any number          any number
//	                               is locked
//	atomicity    a lock per        one write at a     one script per      one transaction
//	             partition         time, shared by    commit, on one      per commit, in one
//	                               waiting commits    node                round trip
//	a commit     nothing           kill -9 and power  depends on          kill -9 and power
//	that                           loss: fsync        appendonly and      loss: fsync
//	returned                       before the answer  appendfsync, see    before the answer
//	survives                                          below
//	a failover   -                 -                  the last commits,   nothing with a
//	loses                                             see below           synchronous replica,
//	                                                                      see below
//	leases       in memory         in memory: a       on the server       on the server
//	are kept                       restart frees them
//	items        Config.Now        Config.Now         the clock of the    Config.Now of the
//	expire by                                         primary             instance that asks
//	expired      freed by later    freed in the       freed by the        freed a minute later
//	space is     calls             background         server              by a sweep, and by
//	                                                                      autovacuum
//	rate limits  of the process    of the process     shared, in one      shared, in one step;
//	                                                  step                a crash of the server
//	                                                                      resets them
//	full, or     -                 ErrUnknown once,   ErrUnavailable      ErrUnavailable or
//	away                           then               until it is back    ErrUnknown until it
//	                               ErrUnavailable                         is back
//	                               until it is back
//	a lost       -                 -                  ErrUnknown          ErrUnknown
//	reply is
//	holds        as much as        as much as a       as much as the      as much as the
//	             memory allows     local disk         servers' memory     servers' disks
//
// # Why these
//
// Each situation has one store: a test, one process, a fleet with Redis, and a fleet that must not lose a
// commit. The last one is PostgreSQL: operators know how to run and back it up, and a synchronous replica
// has each commit before it returns. Earlier releases also had an adapter for etcd, with the same promises,
// which waited for a majority's fsync at each commit and linked 116 more packages.
//
// For the core, an unknown outcome denies. After ErrUnknown it reads the operation by its id, and denies
// until the result is known.
//
// # memory
//
// All data is lost when the process ends, including the used tokens.
//
// # bolt
//
// The file must be on a local disk, because neither its lock nor its fsync is reliable on a network file
// system. There are no settings. To copy the file while the service runs, use `verge kv backup`. A plain
// copy is valid only if no process has the file open, or if it is a copy of a volume snapshot.
//
// A service in use has a second file, the log: "verge.db.wal" next to "verge.db", at most 16 MiB. It has the
// commits that the file lacks. A clean stop removes it. After a crash, or in a volume snapshot, both files
// belong together: move and copy both, and never delete the log. A service does not start without its log,
// or with the log of another file.
//
// If the disk is full, is read-only or reports an error, Verge needs no help to recover. Reads continue and
// writes are rejected. If it is unknown whether the last write is on disk, reads are rejected, too. At least
// every two seconds Verge tests the disk for writes again (it asks for 1 MiB of room). If the test succeeds,
// Verge checks the file and the log, and continues. If the file is missing, Verge waits for it. Only a file
// or a log that Verge cannot use ends the process, with exit code 1: one that lacks acknowledged commits, is
// damaged, was replaced, or is held by another process, or a missing log. The service does not start on a
// disk that cannot be written.
//
// # Redis and Valkey
//
// One server from 6.2, one that Sentinel watches, or a Cluster. Its operator sets
//
//	appendonly yes                 otherwise a restart loses commits
//	appendfsync always             otherwise a power cut loses the last second
//	maxmemory-policy noeviction    otherwise marks of used tokens vanish; another is rejected
//	min-replicas-to-write 1        with replicas, and store.replicas = 1
//
// and the permissions that package redis lists. Replication is asynchronous. So a failover can lose the
// last commits, and a result token that was used in those moments can be used again within its five
// minutes. With store.replicas each commit, including a rejected one, waits for that many replicas and is
// denied if they do not respond. A failover to another replica still loses commits. No setting of Redis
// prevents this; PostgreSQL with a synchronous replica has no such gap. The clocks of the servers may
// differ from Verge's by as much as results and outcomes can tolerate: a second does not matter, a minute
// shortens or lengthens the life of items by a minute.
//
// On a Cluster sessions are spread over 16 partitions (store.partitions), each on the node of its slot.
// The rate counters are on all nodes, and the configuration is in one partition, because one change can
// concern all of it. Give every primary a replica. While a primary is down and no replica has taken over,
// its sessions are rejected, and so are requests that it counts. If it holds the configuration, all requests
// are rejected. And if cluster-require-full-coverage is yes, which is the default, the whole Cluster rejects
// requests. While a slot is moved, its partitions can return ErrUnavailable.
//
// A Redis that lost its data has also lost publishers, integrations and keys, so requests are rejected (401).
// Restart the instances, which restore the publishers and integrations of their configuration, and create new
// keys.
//
// # PostgreSQL
//
// Version 15 or later. Give Verge its own database or schema; it creates its tables there. Each instance has
// up to 16 connections (pool_max_conns in the URL), and one more on which it listens for signals of the
// others: see that the server's max_connections is enough for all. Package postgres lists the URL's options,
// and has the settings for a PgBouncer.
//
// Every commit that returned is on the disk of the primary. A replica follows a moment later. If it is
// promoted, it lacks the last commits, and a result token that was used in those moments can be used again
// within its five minutes. That cannot happen if its operator sets
//
//	synchronous_standby_names 'ANY 1 (…)'   so that each commit waits for a replica
//	synchronous_commit on                   or remote_apply; local and off do not wait
//
// and promotes only a replica that the commits waited for. If there is no such replica, writes are rejected
// until there is one. The old primary must be stopped before another is promoted. Rate counters are not
// replicated, so a failover begins with none. `verge kv check URL` reports the possible losses of your
// server.
//
// The clocks of all instances must be in step, because items expire by them.
//
// # Valkey
//
// Valkey speaks Redis' protocol, and package redis uses nothing that Valkey lacks. But the tests have not
// run on it: Debian 12 has no package with its server. So run `verge kv check` on yours.
//
// # A store that fails
//
// All calls of a request may together wait 5 s for the store (store.budget). After that the response is 503
// with Retry-After. When the store begins to fail at reads, commits, claims or rate counters, one line in the
// log has the reason. When it responds again, another line has the time and the number of failed calls. There
// are metrics for both (verge_store_failing, verge_store_rejected_total). While the store cannot be written,
// /healthz and /readyz report "degraded" with status 200. Package edge/internal/server has the reason why a
// probe should not act on it.
//
// # Several instances
//
// All instances have the same key ring, configuration and number of partitions. The store keeps the set
// of keys in use. So an instance with another ring does not start, and one with an older ring waits
// (package core/keyset).
//
// An instance runs its own tasks immediately. On PostgreSQL an instance that is full, ends or runs no tasks
// signals the others, and they poll immediately. Such a signal can be lost, and a dead instance sends none.
// So on every store the others also poll every two seconds times the number of partitions, but at least every
// half minute. They take over the tasks of a dead instance when its lease ends: after 29 seconds, or as much
// later as webhooks.timeout is longer. The number of partitions is stored and may only grow, because events
// in a partition that no instance polls would never be sent. The commit that records a result proves the
// lease. So an instance that was stopped cannot record a result after its lease, and it begins no task that
// would last longer than its lease.
package kvadapters
