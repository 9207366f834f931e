// Package invariants tests Verge's guarantees while its store, the network, its clock and its receivers fail.
// The services are assembled like `verge serve`, with real stores, the real clock and a real runner. Clients
// load them with complete verifications. The tests then compare the responses that clients and receivers got
// with the state of the service.
//
//	I1   a result token validates at most once, linearizable per token
//	I2   any error, timeout or unknown outcome denies
//	I3   an event whose transition was acknowledged ends delivered or visibly failed
//	I4   without faults one POST for each event; after a crash at most one more
//	     for each lease in flight, with the same key and bytes
//	I5   no POST after a recorded 2xx or 4xx, except for an attempt that was suspended for longer than
//	     AttemptTime between the service's last check and its POST, until its lease had ended
//	     (spec, Delivery 2)
//	I6   one terminal event for each session; completion racing expiry has one winner
//	I7   verification.expired never before its 10 minutes, and soon after
//	I8   attempts and backoff keep to the schedule
//	I9   a dead endpoint adds nothing to the waiting time of others
//	I10  all effects end within 30 s of the store's return, with no restart
//	I11  the store's own errors use up no attempt
//	I12  a rotation of the key ring fails no request and loses no event
//	I13  another party's key ring has no effect
//	I14  a momentary storage failure needs no operator: no acknowledged
//	     change is lost, no token is used twice, no restart is needed
//	I15  idle connections do not affect other clients
//	I16  a result or passkey never counts for more than its verdict, and only while
//	     its trust remains
//
// # Tests of each invariant
//
// Every test under load (TestFaultsOf…) ends in an audit of I1 to I7, I10 and
// I11. Each of them is a subtest of that name:
//
//	TestFaultsOfCalls            memory, bolt: rejected, lost and late calls, replies lost
//	TestFaultsOfTheNetwork       miniredis, redis: the proxy of package faultproxy, at random;
//	                             silence; no listener
//	TestFaultsOfRedis            SCRIPT FLUSH, kill -9 and back, READONLY, OOM, NOREPLICAS, SIGSTOP
//	TestFaultsOfACluster         MOVED, ASK, TRYAGAIN as the slot in use moves; CLUSTERDOWN
//	TestFaultsOfPostgres         kill -9 and back, a restart, read-only, no replica to wait for,
//	                             SIGSTOP; a failover to a synchronous replica; the proxy at random; silence
//	TestRedisThatLosesEverything FLUSHALL, restart without data; lists the guarantees
//
// And by name:
//
//	I1   TestI1ValidateIsLinearizable        memory, bolt, miniredis, redis, Cluster, postgres:
//	                                         histories of racing clients for porcupine, replies lost,
//	                                         slot moving
//	     TestI1HoldsWhereClocksDiffer        the store's clock and Verge's 10 min apart; Verge's jumps
//	I2   the audits: each response that a client got
//	I3   the audits; TestKillOfRedisUnderAThousandEvents
//	I4   TestI4ExactlyOnceWithoutFaults      every engine
//	     TestKillOfRedisUnderAThousandEvents the leases in flight are counted at the kill
//	I5   TestI5NoPostAfterTheLastWord        every engine; 2xx and 4xx after a 5xx
//	     TestI5AnAttemptThatStandsStill      memory, with the times of production
//	     TestWitness_Overtaken               the forbidden POSTs, and the one POST that is allowed
//	I6   TestI6CompletionRacesExpiry         every engine
//	I7   TestI7ExpiredNeverEarlyAndSoonAfter every engine; the clock jumps, no instance ran
//	I8   TestI8AttemptsKeepTheSchedule       every engine; the clock jumps 10 min ahead and back
//	I9   TestI9ADeadEndpointDelaysNobody     memory
//	I10  TestI10LeasesEndWithinTheRecovery   memory, with the times of production
//	     TestKillOfRedisUnderAThousandEvents redis, with the times of production
//	I11  TestI11OnlyReceiversUseUpAttempts   memory, bolt
//	I12  cmd/verge/internal/cli: TestRotationInAFleet  redis, postgres: three instances, one file or copies
//	     core/keyset: TestRotation_NoFailures  memory: copies that come late, clocks apart
//	     edge/workers: TestRotation_NextSecret  workerd: the secret's next version
//	I13  cmd/verge/internal/cli: TestRotation_OtherRing  redis
//	     core/keyset: TestRing_Stranger  memory; an earlier release's store, too
//	     edge/workers: TestRotation_NextSecret  workerd
//	I14  TestFaultsOfRedis, TestFaultsOfPostgres which restart nothing; and, of
//	     cmd/verge/internal/cli, over the binary and a bolt file,
//	     TestI14AMomentaryStorageFailureNeedsNobody  a full file system, a limit of the file's size
//	                                         (guests, too), read-only, one I/O error
//	I15  TestI15IdleConnectionsCostNobodyElseAnything, in cmd/verge/internal/cli, over the binary,
//	     native and wasm: 1,536 and 8,000 half-sent requests of one address next to
//	     a publisher at another
//	I16  TestI16NothingStandsForMoreThanWasJudged  every engine, and a Cluster: services with other
//	                                         trust on one store, settings that change in the middle
//	     cmd/verge/internal/cli: TestTrust_Changes  the binary, native and wasm, with restarts
//	     core/internal/hosted: TestPendingResponse_ChangedMeanwhile, TestHandOff_ChangedMeanwhile,
//	                  TestPasskey_ChangedMeanwhile  each change alone
//
// # Clocks that jump
//
// Verge uses its own clock. When the clock is set 10 minutes ahead, every younger session ends immediately,
// and every waiting event is retried immediately. Every lease ends, too, so an attempt in flight can be
// repeated. When the clock is set back, postponed events wait until the old time comes again, and so do the
// attempts in flight at that moment. New events are not delayed. Neither jump allows a token to validate
// twice, ends a session early by that clock, or uses up an attempt. A receiver with the correct time returns
// 401 for events whose timestamp is 5 minutes off, so they become dead and visible. A service cannot
// distinguish this from a receiver that rejects them.
//
// # Seeds
//
// A failure under random faults prints the seed. VERGE_SEED=n repeats the same decisions, but goroutines may
// run in another order. VERGE_FAULT_TIMES=20 runs the tests of random faults 20 times longer.
package invariants
