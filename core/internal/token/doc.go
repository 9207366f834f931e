// Package token seals data that Verge gives to browsers and publishers instead of storing it: the flow
// token in redirect_url, the step token and the result token (contract 15 to 17).
//
// A token is a JWS (RFC 7515, HS256) inside an AEAD envelope (XChaCha20-Poly1305). Without the key ring,
// tokens cannot be read, modified or created. Keys are derived per purpose (HKDF-SHA256, RFC 5869).
// Purpose, host and format version are associated data, so a token of one kind never opens as another. Use
// [SealFlow], [OpenFlow] and similar functions. They work with [Ring], the key ring. Package keyring has its
// file.
//
// Guaranteed: every later release of the same format version opens the tokens of this one.
// testdata/tokens.json has vectors for implementations in other languages. Not guaranteed: secrecy against
// a holder of the key ring, or that a token was not used before. Only the KV contains that.
package token
