// Package mdoc verifies mobile documents (ISO/IEC 18013-5) that a wallet presents over the network, by
// OpenID4VP 1.0 or by the Digital Credentials API (ISO/IEC 18013-7, Annex C). Everything in it is a pure
// function: time, keys, nonces and trust anchors come from the caller.
//
// # Asking
//
// The request and the session transcript contain the same nonce, addresses and key. A wallet signs the
// transcript, so its response is valid for one request only.
//
//   - OpenID4VP by direct_post and direct_post.jwt: OpenID4VPTranscript. With direct_post.jwt, the request
//     names a key and the transcript has its Thumbprint. Without it the thumbprint is nil.
//   - OpenID4VP by dc_api and dc_api.jwt: OpenID4VPDCAPITranscript, with the thumbprint in the same way.
//   - Digital Credentials API with org-iso-mdoc: DeviceRequest and EncryptionInfo make the request, and
//     DCAPITranscript the transcript. ReaderAuthentication returns the bytes that a reader signs.
//
// # Reading the response
//
// OpenJWE opens a response by direct_post.jwt, and OpenHPKE a response by org-iso-mdoc. The plaintext is a
// DeviceResponse, and Verify returns its proof.
//
// # Trust
//
// Only the trust anchors and the keys of issuers' DIDs are trusted. ParseAnchors and ParseIssuerKeys read
// them from the operator's files, and ListedAnchor reads an anchor from a certificate of a trusted list. A
// profile lists the extended key usages that a document signer may have, because issuers of one kind of
// document may not sign another kind.
//
// Ask.VerifyJWS verifies tokens that the same issuers have signed. Package sdjwt uses it for documents in the
// format dc+sd-jwt, and shares the rejections and the revocation below.
//
// # Revocation
//
// Verify returns where the document's status is published (Proof.Status), and the certificates that may have
// been revoked (Proof.Path). ListsOf returns who may sign lists about them. Package revocation reads the
// lists.
//
// # Rejections
//
// Responses may come from attackers. They are parsed strictly, and signed data is compared as it was sent.
// Each rejection is a *Rejection with a constant reason. It does not repeat data of the response, so it may
// be logged.
package mdoc
