// Package cbor reads CBOR (RFC 8949) that others made, and writes the little that tests and protocols need.
// Passkeys and mobile documents are written in it.
//
// Read checks all of the input at once, and keeps nothing but the bytes. What it returns is a span of the
// input. An Item's methods read that span, and none of them can fail on input that Read has accepted: each
// says whether the item is of the type that was asked for.
//
// # What is refused
//
// Two readers must never understand the same bytes differently. So Read is stricter than RFC 8949:
//
//   - Nothing stands behind the item. ReadFirst is for an item that something follows.
//   - Each length is known before its content.
//   - The keys of a map are integers or texts, and no key occurs twice. Two encodings of one integer are the
//     same key.
//   - Texts are valid UTF-8. Bytes and texts are two types, and neither is read as the other.
//   - The simple values are false, true and null. Tags and floats are rejected.
//   - The input has at most MaxSize bytes, 4,096 items and 16 levels. Options.Size and Options.Items
//     raise the first two.
//
// Heads may be longer than needed, and the keys of a map may have any order, because writers of mobile
// documents do that. Options.Canonical refuses both.
//
// Mobile documents have parts that their reader ignores, and issuers may put any item there. With Options.Any
// Read accepts tags, floats, all simple values, indefinite lengths, and keys of every type. The other rules
// stay, and so do the methods of Item: a float or an item of indefinite length is of none of their types. A
// member whose value is undefined counts as missing.
//
// # Signed bytes
//
// What is signed or hashed in CBOR is often a part of a larger item, exactly as its writer wrote it. Item.Raw
// returns these bytes. A writer puts them into a new item with the functions that write, which take items as
// Read returns them.
package cbor
