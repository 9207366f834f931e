// Package token seals data that Verge gives to browsers and publishers instead of storing it: the flow
// token in redirect_url, the provider token and the result token (contract 15 to 17).
//
// A token is a JWS (RFC 7515, HS256) inside an AEAD envelope (XChaCha20-Poly1305). Without the key ring
// nobody can read, alter or make one. Keys are derived per purpose (HKDF-SHA256, RFC 5869). Purpose,
// host and format version are associated data, so a token of one kind never opens as another. Use
// SealFlow, OpenFlow and the functions like them. They work with Ring, the key ring. Keyring is the
// form of the file in which the ring is kept.
//
// Promised: every later release of the same format version opens what one release seals.
// testdata/tokens.json has vectors that an implementation in another language can check. Not promised:
// secrecy against a holder of the key ring, or that a token was not used before. Only the KV knows
// that.
package token
