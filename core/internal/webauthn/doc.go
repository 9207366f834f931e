// Package webauthn is a relying party for passkeys (Web Authentication Level 3): it writes the options that a
// browser needs, and decides whether an answer proves that somebody has a passkey and was verified by it.
// Everything in it is a pure function. Challenges come from the caller, and so does all that is stored.
//
// # Making a passkey
//
// Write CreationOptions with a fresh challenge, and keep the challenge where the user cannot change it. In
// the page, a script hands the options to the browser and sends back what it gets:
//
//	const options = PublicKeyCredential.parseCreationOptionsFromJSON(written)
//	const credential = await navigator.credentials.create({publicKey: options})
//	answer = JSON.stringify(credential.toJSON())
//
// VerifyRegistration checks the answer and returns the Credential to store, under its ID. The caller refuses
// an ID that is stored already.
//
// # Using a passkey
//
// Write RequestOptions, and in the page:
//
//	const options = PublicKeyCredential.parseRequestOptionsFromJSON(written)
//	const credential = await navigator.credentials.get({publicKey: options})
//	answer = JSON.stringify(credential.toJSON())
//
// CredentialID says which credential the answer is from. Load it, and call VerifyAssertion. If there is no
// error, store the new counter by compare-and-set, so that two answers of one counter cannot both count. If
// the error is ErrCounter, block the credential: somebody has a copy of it.
//
// A challenge is good for one answer. The caller sees to that, because nothing is kept here.
//
// # What is asked for
//
// The user is verified by PIN, finger or face, each time. A passkey is discoverable: the user types no name.
// The algorithms are ES256, EdDSA with Ed25519, and RS256 with keys of 2,048 to 4,096 bits.
//
// No attestation is asked for: which device a passkey is on is the user's business. Some authenticators
// send a statement all the same. It is not verified, and it grants nothing. So nothing signs what
// VerifyRegistration reads: it binds a new passkey to whoever answered the challenge, and says nothing of
// how the key is kept.
//
// # Refusals
//
// Answers come from a browser, so anybody may have written them. They are read strictly: at most 64 KiB,
// JSON without duplicate members, base64url in its one form, CBOR in the canonical form of CTAP2 where
// authenticators write it, and nothing behind what is expected. Each refusal is a *Refusal with a constant
// reason. It repeats nothing of the answer, so it may be logged.
package webauthn
