// Package sdjwt verifies documents in the format dc+sd-jwt that a wallet presents: SD-JWT VC
// (draft-ietf-oauth-sd-jwt-vc) with key binding (RFC 9901). It is pure: time, nonces and trust anchors come
// from the caller.
//
// [Verify] reads a presentation, which is the issuer's token, disclosures and a key binding token, with "~"
// between them. Package mdoc has the trust anchors, the path of certificates and the reasons of rejections
// that both formats share, and verifies the lists that a document refers to.
//
// # Trust
//
// Keys of certificates (x5c) that lead to a trust anchor, and keys of DIDs that the operator has configured.
// The kid of a token names such a key. Other keys of issuers, such as the keys at an address, are not looked
// up, and neither is the metadata of a type. The claim iss is not used: the signer's certificate or the DID
// in kid names the issuer.
//
// # Rejections
//
// Anyone may have written a presentation. It is read strictly, has at most 64 KiB and at most 64 disclosures.
// A rejection is a *mdoc.Rejection with a constant reason. It contains no data of the presentation.
package sdjwt
