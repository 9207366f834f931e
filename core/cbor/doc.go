// Package cbor reads CBOR (RFC 8949) from other parties, and writes the items that tests and protocols
// need. Passkeys and mobile documents use it.
//
// [Read] checks the whole input before it returns, and keeps only the bytes. An [Item] is a span of the
// input. Its methods read that span and cannot fail on accepted input: each reports whether the item has
// the requested type.
//
// # Rejected input
//
// Two readers must never understand the same bytes differently. So Read is stricter than RFC 8949:
//
//   - No bytes follow the item. ReadFirst is for an item with bytes after it.
//   - Each length is known before its content.
//   - The keys of a map are integers or texts, without duplicates. Two encodings of one integer are the
//     same key.
//   - Texts are valid UTF-8. Bytes and texts are different types.
//   - The simple values are false, true and null. Tags and floats are rejected.
//   - The input has at most MaxSize bytes, 4,096 items and 16 levels. Options.Size and Options.Items raise
//     the first two.
//
// Heads may be longer than needed, and the keys of a map may have any order, because writers of mobile
// documents do that. Options.Canonical rejects both.
//
// Mobile documents have parts that their reader ignores, in which issuers may put any item. With
// Options.Any, Read accepts tags, floats, all simple values, indefinite lengths, and keys of every type.
// The other rules still apply, and so do the methods of Item: an item of indefinite length has none of their
// types, and a float is no integer. A member whose value is undefined counts as missing.
//
// # Signed bytes
//
// In CBOR, the signed or hashed bytes are often a part of a larger item, exactly as its writer wrote it.
// Item.Raw returns these bytes. To put them into a new item, pass the Item to the writing functions.
package cbor
