// Package keyset keeps the instances that share a store in step about their key
// ring (contract 16). The store holds the set of keys in use: ids, fingerprints
// and times, authenticated by the keys themselves.
//
// Use New with the ring's file and the store, Tend every few seconds, and Use
// when the file has changed. Ring is then the host.Sealer of this instance and
// KV its store.
//
// # Promised
//
//   - A key seals only after it has been in the set for longer than every
//     instance takes to look there (Settle). So no instance meets a token whose
//     key it does not at least know of.
//   - A token of a key that the fleet uses and this instance lacks is
//     host.ErrKeyAwaited: the caller comes again, and the file is read at once.
//   - An instance whose ring lacks a key that the fleet seals with, or shares
//     none with the fleet, changes nothing in the store: its KV refuses every
//     write.
//   - A key that was replaced opens only what is older than its successor
//     (host.Dated), by the times of the set and not of a file that may have come
//     late.
//   - Webhook secrets are sealed again with a key once that key seals.
//
// Not promised: anything against who holds a key of the ring and can write to
// the store as well. Who can write to the store alone can delete the set, which
// the next instance makes again; they cannot make one.
package keyset
