// Package keyset makes sure that all instances that share a store have matching key rings (contract
// 16). The store holds the set of keys in use: their ids, fingerprints and times. The keys themselves
// authenticate the set.
//
// Call New with the ring's file and the store, Refresh every few seconds, and Use when the file has
// changed. Ring is the host.Sealer of this instance, and its KV is the store that this instance uses.
//
// # Promised
//
//   - A key seals only after it has been in the set for longer than every instance takes to look there
//     (Settle). So no instance meets a token whose key it has not at least heard of.
//   - A token whose key the fleet uses and this instance lacks gives host.ErrKeyAwaited. The caller
//     tries again later, and the file is read at once.
//   - If an instance's ring lacks a key that the fleet seals with, or shares no key with the fleet, the
//     instance changes nothing in the store: its KV refuses every write.
//   - A replaced key opens only what is older than its successor (host.ValidAt). The set's times decide
//     that, not those of a file, which may have come late.
//   - Webhook secrets are sealed again with a new key once that key seals, and what is kept for long is
//     signed again with it. After a second time, when every instance seals with it, the key stands alone:
//     no older key authenticates what is kept for long (token.CheckLongLived). A replaced ring that leaked is
//     then of no use for that.
//   - A set counts only if every key in it that is not retired has made a MAC of it. So a replaced key makes
//     no set. An instance that has seen the set brings back what is missing in it later. An instance that
//     starts takes a key of its ring that has signed records, and is not in the set, for one that stands
//     alone.
//
// Not promised: protection against someone who holds the key that seals and can also write to the store.
// Someone who can only write to the store can delete the set, and the next instance makes it again.
// They cannot make a set themselves. While no instance runs, they can put back the set as it was between
// the moment when the key began to seal and the one when it stood alone, or the whole store of the time
// before. Then what an older key has signed is signed again once more.
package keyset
