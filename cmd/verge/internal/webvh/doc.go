// Package webvh verifies the log of a DID of the method did:webvh 1.0 (identity.foundation/didwebvh), and
// returns the keys of its document.
//
// [Address] returns the address of the log, and [Verify] verifies it: the identifier (SCID) is the hash of
// the first entry, each entry has the hash of the previous entry, and each is signed (eddsa-jcs-2022) by a
// key that the previous entry allows, or announces by its hash (pre-rotation).
//
// # Limits
//
// A log has at most 1 MiB and 2,000 entries. DIDs with witnesses, DIDs that were moved or deactivated, and
// the earlier method did:tdw are rejected. The Swiss base registry allows none of these for new DIDs.
package webvh
