// Package wallettest is an issuer of mobile documents and SD-JWT VCs, and a wallet that holds them, for tests
// of a service that requests proofs from wallets.
//
//	issuer := wallettest.NewIssuer(wallettest.IssuerConfig{})
//	// Give issuer.PEM() to the service as its trust anchor. Then take the link of its page:
//	wallet := wallettest.New(issuer)
//	reply, err := wallet.Answer(ctx, link)
//
// The wallet reads links of any scheme, such as av:// and openid4vp://, with the request in them or with a
// request_uri, whose signature it verifies. It responds by direct_post or direct_post.jwt, as requested.
// Credential responds to a page's request by the Digital Credentials API, with org-iso-mdoc,
// openid4vp-v1-unsigned or openid4vp-v1-signed.
//
// It holds a document of every requested type: a mobile document with Wallet.Elements, or, if Wallet.Format
// is dc+sd-jwt, an SD-JWT VC with Wallet.Claims. By default its responses are valid. For an invalid response,
// a test changes the Presentation before it is signed, or the Message before it is sent:
//
//	reply, err := wallet.Answer(ctx, link, func(p *wallettest.Presentation) { p.Session.Nonce = "another" })
//
// It shares no code with the verifier of core/method/openid4vp, so that the two cannot have the same error.
// Both use core/cbor.
//
// Its documents prove no age. A real service must never trust its issuer.
package wallettest
