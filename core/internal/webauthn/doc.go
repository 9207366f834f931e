// Package webauthn is a relying party for passkeys (Web Authentication Level 3): it writes the options that a
// browser needs, and checks whether a response proves that a user has a passkey and was verified by it. All
// functions are pure. The caller supplies challenges and stores the results.
//
// # Creating a passkey
//
// Call [CreationOptions] with a fresh challenge, and keep the challenge where the user cannot change it. In
// the page, a script passes the options to the browser and sends back the result:
//
//	const options = PublicKeyCredential.parseCreationOptionsFromJSON(written)
//	const credential = await navigator.credentials.create({publicKey: options})
//	response = JSON.stringify(credential.toJSON())
//
// [VerifyRegistration] checks the response and returns the [Credential] to store, under its ID. The caller
// rejects an ID that is already stored.
//
// # Using a passkey
//
// Call [RequestOptions], and in the page:
//
//	const options = PublicKeyCredential.parseRequestOptionsFromJSON(written)
//	const credential = await navigator.credentials.get({publicKey: options})
//	response = JSON.stringify(credential.toJSON())
//
// [CredentialID] returns the id of the credential that responded. Load it, and call [VerifyAssertion]. If
// there is no error, store the new counter by compare-and-set, so that two responses with one counter cannot
// both be accepted. If the error is [ErrCounter], block the credential: a copy of it exists.
//
// The caller must accept each challenge only once: this package has no state.
//
// # Requirements
//
// The user is verified by PIN, fingerprint or face each time. A passkey is discoverable: the user types no
// name. The algorithms are ES256, EdDSA with Ed25519, and RS256 with keys of 2,048 to 4,096 bits.
//
// No attestation is requested: which device holds a passkey is the user's business. Some authenticators send
// a statement anyway. It is not verified and has no effect. The input of VerifyRegistration is therefore
// unsigned: it binds a new passkey to the sender of the response, and does not prove how the key
// is stored.
//
// # Errors
//
// Responses come from a browser, so an attacker may have written them. They are parsed strictly: at most 64
// KiB, JSON without duplicate fields, base64url in its only valid form, CBOR in the canonical form of CTAP2
// where authenticators write it, and no trailing data. Each rejection is a [*Rejection] with a constant
// reason. It contains no part of the response, so it may be logged.
package webauthn
