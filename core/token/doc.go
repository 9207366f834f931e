// Package token seals what Verge hands to browsers and publishers instead of
// keeping it: the flow token in redirect_url, the provider token, the result
// token (contract 15 to 17).
//
// A token is a JWS (RFC 7515, HS256) inside an AEAD envelope
// (XChaCha20-Poly1305): nobody without the key ring reads, alters or makes
// one. Keys are derived per purpose (HKDF-SHA256, RFC 5869), and purpose, host
// and format version are associated data, so a token of one kind never opens
// as another. Use SealFlow, OpenFlow and their like; Ring is the key ring
// they work with, Keyring the file it is kept in.
//
// Promised: what one release seals, every later release of the same format
// version opens. testdata/tokens.json has vectors that another language can
// check. Not promised: secrecy against a holder of the key ring, or that a
// token has not been used; single use is the KV's to tell.
package token
