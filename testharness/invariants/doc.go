// Package invariants proves what Verge promises while its store, the network, its clock and its receivers
// fail. The services are put together as `verge serve` does it, on real stores, the real clock and a real
// runner. Clients load them with whole verifications. The tests then compare what clients were told and
// what receivers got with what the service holds.
//
//	I1   a result token validates at most once, linearizable per token
//	I2   any error, timeout or unknown outcome denies
//	I3   an event whose transition was acknowledged ends delivered or visibly failed
//	I4   without faults one POST for each event; after a crash at most one more
//	     for each lease in flight, with the same key and bytes
//	I5   no POST after a recorded 2xx or 4xx, but for an attempt that stood still for longer than
//	     AttemptTime between the service's last check and its POST, until its lease had ended
//	     (spec, Delivery 2)
//	I6   one terminal event for each session; completion racing expiry has one winner
//	I7   verification.expired never before its 10 minutes, and soon after
//	I8   attempts and backoff keep to the schedule
//	I9   a dead endpoint adds nothing to what the others wait
//	I10  all is well within 30 s of the store's return, with no restart
//	I11  the store's own errors use up no attempt
//	I12  a rotation of the key ring fails no request and loses no event
//	I13  a stranger's key ring changes nothing
//	I14  a momentary storage failure needs no operator: nothing that was
//	     acknowledged is lost, nothing is used twice, nothing has to be restarted
//	I15  idle connections cost nobody else anything
//	I16  a result or passkey never stands for more than what was judged, by trust
//	     that still holds
//
// # Which test proves what
//
// Every test under load (TestFaultsOf…) ends in an audit of I1 to I7, I10 and
// I11. Each of them is a subtest of that name:
//
//	TestFaultsOfCalls            memory, bolt: refused, lost and late calls, replies lost
//	TestFaultsOfTheNetwork       miniredis, redis: the proxy of package faultproxy, at random;
//	                             silence; nobody listens
//	TestFaultsOfRedis            SCRIPT FLUSH, kill -9 and back, READONLY, OOM, NOREPLICAS, SIGSTOP
//	TestFaultsOfACluster         MOVED, ASK, TRYAGAIN as the slot in use moves; CLUSTERDOWN
//	TestFaultsOfPostgres         kill -9 and back, a restart, no writes taken, no replica to wait for,
//	                             SIGSTOP; a failover to a synchronous replica; the proxy at random; silence
//	TestRedisThatLosesEverything FLUSHALL, restart without data; says what is promised then
//
// And by name:
//
//	I1   TestI1ValidateIsLinearizable        memory, bolt, miniredis, redis, Cluster, postgres:
//	                                         histories of racing clients for porcupine, replies lost,
//	                                         slot moving
//	     TestI1HoldsWhereClocksDiffer        the store's clock and Verge's 10 min apart; Verge's jumps
//	I2   the audits: each answer that a client got
//	I3   the audits; TestKillOfRedisUnderAThousandEvents
//	I4   TestI4ExactlyOnceWithoutFaults      every engine
//	     TestKillOfRedisUnderAThousandEvents the leases in flight are counted at the kill
//	I5   TestI5NoPostAfterTheLastWord        every engine; 2xx and 4xx after a 5xx
//	     TestI5AnAttemptThatStandsStill      memory, with the times of production
//	     TestTheWitnessOfI5                  what the audits forbid, and the one POST that they allow
//	I6   TestI6CompletionRacesExpiry         every engine
//	I7   TestI7ExpiredNeverEarlyAndSoonAfter every engine; the clock jumps, nothing ran meanwhile
//	I8   TestI8AttemptsKeepTheSchedule       every engine; the clock jumps 10 min ahead and back
//	I9   TestI9ADeadEndpointDelaysNobody     memory
//	I10  TestI10LeasesEndWithinTheRecovery   memory, with the times of production
//	     TestKillOfRedisUnderAThousandEvents redis, with the times of production
//	I11  TestI11OnlyReceiversUseUpAttempts   memory, bolt
//	I12  cmd/verge/internal/cli: TestRotationInAFleet  redis, postgres: three instances, one file or copies
//	     core/keyset: TestARotationFailsNoRequest  memory: copies that come late, clocks apart
//	     edge/workers: TestTheRingInTheSecretsNextVersion  workerd: the secret's next version
//	I13  cmd/verge/internal/cli: TestAStrangerDoesNotJoin  redis
//	     core/keyset: TestAStrangersRingChangesNothing  memory; an earlier release's store, too
//	     edge/workers: TestTheRingInTheSecretsNextVersion  workerd
//	I14  TestFaultsOfRedis, TestFaultsOfPostgres which restart nothing; and, of
//	     cmd/verge/internal/cli, over the binary and a bolt file,
//	     TestI14AMomentaryStorageFailureNeedsNobody  a full file system, a limit of the file's size
//	                                         (guests, too), read-only, one I/O error
//	I15  TestI15IdleConnectionsCostNobodyElseAnything, in cmd/verge/internal/cli, over the binary,
//	     native and wasm: 1,536 and 8,000 half-sent requests of one address beside
//	     a publisher at another
//	I16  TestI16NothingStandsForMoreThanWasJudged  every engine, and a Cluster: services with other
//	                                         trust on one store, settings that change in the middle
//	     cmd/verge/internal/cli: TestTrust_Changes  the binary, native and wasm, with restarts
//	     core/internal/hosted: TestPendingResponse_ChangedMeanwhile, TestHandOff_ChangedMeanwhile,
//	                  TestPasskey_ChangedMeanwhile  each change by itself
//
// # What a clock that jumps does
//
// Verge goes by its own clock. When the clock is set 10 minutes ahead, every younger session ends at once,
// and everything that waits is retried at once. Every lease ends, too, so an attempt in flight can be made
// once more. When the clock is set back, what was put off waits until the old time comes again. So do the
// attempts that are in flight at that moment. New events are not delayed. Neither makes a token valid twice,
// ends a session early by that clock, or uses up an attempt. A receiver with the right time answers 401 to
// events whose timestamp is 5 minutes off, so they are given up, visibly. A service cannot tell this from a
// receiver that does not want them.
//
// # Seeds
//
// A failure under random faults says the seed. VERGE_SEED=n replays the same
// decisions, but goroutines may take other turns. VERGE_FAULT_TIMES=20 runs the
// tests of random faults 20 times longer.
package invariants
