// Package keyset makes sure that all instances of a store have compatible key rings (contract 16). The
// store has the set of keys in use: their ids, fingerprints and times. The keys themselves authenticate the
// set.
//
// Call [New] with the ring's file and the store, [Ring.Refresh] every few seconds, and [Ring.Use] when the
// file has changed. A Ring is the host.Sealer of its instance, and [Ring.KV] is the store for this
// instance.
//
// # Guarantees
//
//   - A key becomes active only after it has been in the set for longer than every instance takes to read
//     it (Settle). So every instance has at least read the id of a token's key.
//   - A token whose key the fleet uses and this instance lacks returns host.ErrKeyAwaited. The caller
//     retries later, and the file is read immediately.
//   - If an instance's ring lacks an active key of the fleet, or shares no key with the fleet, the instance
//     does not modify the store: its KV rejects every write.
//   - A replaced key opens only tokens that are older than its successor (host.ValidAt). The times are the
//     set's, not those of a file, which may have arrived late.
//   - When a new key has become active, webhook secrets are encrypted again with it, and long-lived records
//     are signed again with it. After a second time, when it is active on every instance, the key is alone:
//     no older key authenticates long-lived records (token.CheckLongLived). A leaked, replaced ring is then
//     useless for that.
//   - A set counts only if every key in it that is not retired has made a MAC of it. So a replaced key
//     cannot create a set. An instance that has seen the set restores its missing parts later. An instance
//     that starts treats a key of its ring that has signed records, and is not in the set, as alone.
//
// Not guaranteed: protection against an attacker who has the active key and can also write to the store. An
// attacker who can only write to the store can delete the set, and the next instance creates it again. The
// attacker cannot create a set. While no instance runs, the attacker can restore the set from between the
// moment when the key became active and the moment when it was alone, or the whole store from before.
// Records that an older key has signed are then signed again.
package keyset
