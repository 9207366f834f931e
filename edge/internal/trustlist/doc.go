// Package trustlist verifies trusted lists and returns the certificates in them that may issue documents. Use
// [Read]. The package has no clock, no network and no store: its caller fetches a list, passes the time,
// compares [List].Sequence with the last list's, and decides for how long a stale list counts.
//
// # Formats
//
//   - [TS119612]: ETSI TS 119 612, XML with an enveloped XAdES signature, as the European Commission
//     publishes its lists.
//   - [TS119602]: ETSI TS 119 602, JSON with a JAdES signature: a compact JWS, or one in JSON with exactly
//     one signature.
//   - [VICAL]: ISO/IEC 18013-5, Annex C, CBOR in a COSE_Sign1, as AAMVA publishes its list.
//
// # Signers
//
// The signature must be valid under the key of a certificate that is within its dates, and
//
//   - is byte for byte one of Expected.Signers, or
//   - chains up to one of them that is a certificate authority, by at most [maxChain] certificates of the
//     document, and has the extended key usage of the format: 0.4.0.2231.3.0 (id-tsl-kp-tslSigning) for the
//     ETSI formats, 1.0.18013.5.1.8 for a VICAL. All certificates of the chain are within their dates.
//
// A key is RSA with 2,048 to 8,192 bits, or ECDSA on P-256, P-384 or P-521. Hashes are SHA-256, SHA-384 and
// SHA-512.
//
// # XML
//
// The document is UTF-8 without a document type, entities of its own, or processing instructions. It has one
// signature, the last element of the root, with exactly two references:
//
//   - URI "": the whole document without the signature. Transforms are enveloped-signature, or
//     xmldsig-filter2 that subtracts /descendant::ds:Signature, followed by exclusive canonicalization
//     without comments.
//   - the SignedProperties of the signature, by their Id, which no other element has. The transform is
//     exclusive canonicalization. They name the signing certificate (SigningCertificateV2, or
//     SigningCertificate with SHA-256 or better).
//
// Exclusive canonicalization has no prefix list. All other algorithms, references and elements in the
// signature are rejected. The signed parts are read from the canonical bytes that were verified, never from
// the document, so an element that the signature does not cover cannot be read. A document whose attributes
// contain line breaks or tabs is rejected with a wrong digest.
//
// # JSON
//
// Objects have no duplicate members. The header has alg (ES256, ES384, ES512, RS256 or PS256, bound to the
// key), and x5c, or x5t#S256 that names a configured signer. x5t#S256 and x5t#o, if present, must match x5c.
// crit may list sigT, iat, x5t#S256 and x5t#o. Rejected are b64 other than true, and sigD. Unprotected
// headers are ignored.
//
// # CBOR
//
// The algorithm is protected: ES256, ES384 or ES512, bound to the curve of the key. x5chain is protected or
// not. No header is critical.
//
// # Entries
//
// A service of an ETSI list counts if its type is one of Expected.ServiceTypes, its status is granted (see
// [granted]), and its status has started. A TS 119 602 service without a status is granted, because the
// profiles for PID and mDL providers omit it. The history of a service does not count. An entry of a VICAL
// counts if it lists the document type. If one service with a certificate is granted, and another of a wanted
// type is not, the certificate does not count. Expired certificates, and those that cannot be read, are
// skipped and counted.
//
// The type of an ETSI list does not matter, because the types of its services are specific enough: a signer's
// other lists have none of the wanted types.
//
// Issued must not be later than the time of reading, with five minutes for
// differences of clocks.
//
// # Sources
//
// ETSI TS 119 612 and TS 119 602 as the data models of the European Commission's repositories and its lists
// for age verification implement them, ETSI TS 119 182-1 (JAdES), XML Signature, Exclusive XML
// Canonicalization 1.0, XML-Signature XPath Filter 2.0, RFC 7515, RFC 9052 and RFC 9360.
package trustlist
