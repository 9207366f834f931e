package attackers

var wallet = foothold{"An attacker who builds a wallet", []row{
	{
		says: "The wallet proves an age only by a document of an issuer that an anchor of the " +
			"method covers, signed with the key that the document names, in response to this " +
			"session's question at this address. Any other response is rejected, and the address " +
			"remains open.",
		tries: "documents that are altered or forged, and documents that are expired, of another kind, " +
			"or of an issuer or a signer without an anchor, without a signature of this session",
		gets: "400 for each",
		proof: []string{"core/internal/mdoc:TestVectors",
			"core/internal/mdoc:TestSecurityObjects",
			"core/internal/mdoc:TestCertificates", "core/internal/mdoc:TestChains",
			"core/internal/sdjwt:TestVerify_Issuers", "core/internal/sdjwt:TestVerify_Dates",
			"core/internal/mdoc:TestVerify_FlippedBits",
			"core/method/openid4vp:TestResponse_Malformed"},
	},
	{
		tries: "disclosures of an SD-JWT that are forged, sent twice, used as another claim, or under " +
			"a reserved name, and a key binding of another session, page or presentation",
		gets: "400 for each",
		proof: []string{"core/internal/sdjwt:TestVerify_Disclosures",
			"core/internal/sdjwt:TestVerify_KeyBinding", "core/internal/sdjwt:TestVerify_EveryBit",
			"core/method/openid4vp:TestAnswers_SDJWT"},
	},
	{
		tries: "another key than the document's, a MAC, an algorithm that does not fit the key, " +
			"and a signature over something else",
		gets: "400 for each",
		proof: []string{"core/internal/mdoc:TestVectors", "core/internal/mdoc:TestSignatures",
			"core/internal/mdoc:TestVerify_DeviceAlgorithm"},
	},
	{
		says: "A document that is expired, of another kind or of an unknown issuer fails the " +
			"attempt if the wallet has signed this session's question with it.",
		tries: "such a document from a wallet with the question, and from an attacker without it",
		gets:  "a failed attempt with its reason; 400 without the question",
		proof: []string{"core/internal/mdoc:TestFaultsOfDocuments",
			"core/method/openid4vp:TestDocumentFaults",
			"testharness/conformance:TestWalletMatrix", "testharness/conformance:TestDocumentFaults"},
	},
	{
		tries: "to have a request object signed for a nonce that is long, repeated or no text, or " +
			"to pass a response off as a request",
		gets: "400 for each",
		proof: []string{"core/method/openid4vp:TestWalletNonce",
			"testharness/conformance:TestFetchedRequests"},
	},
	{
		tries: "a response that was accepted before, a response to another question, client or address, " +
			"and a response for this device at the address for another device",
		gets: "400 for each, even after a rotation of the key ring",
		proof: []string{"testharness/internal/methodtest:TestWallet_ReplayedResponse",
			"testharness/internal/methodtest:TestWallet_Address",
			"core/method/openid4vp:TestResponse_Malformed"},
	},
	{
		tries: "a zero-knowledge proof of another element, time, type, session, circuit or issuer, an " +
			"altered proof, an old proof, and a document where a proof is required",
		gets: "400 for each, or a failed attempt through the browser",
		proof: []string{"core/method/openid4vp:TestProofs_Rejected",
			"core/method/openid4vp:TestProofs_DocumentInstead", "core/method/openid4vp:TestProofs_Time",
			"edge/internal/longfellow:TestVerify_ChangedProof",
			"testharness/conformance:TestZeroKnowledge", "cmd/verge/internal/cli:TestTrust_ProofAttacks"},
	},
	{
		tries: "an unencrypted response to a request for an encrypted one, and envelopes of another " +
			"algorithm, key or form",
		gets: "400 for each",
		proof: []string{"core/method/openid4vp:TestResponse_Malformed", "core/internal/mdoc:TestOpenJWE",
			"core/internal/mdoc:TestOpenHPKE"},
	},
	{
		tries: "a value that is not true, an age that was not requested, and a token of another form",
		gets:  "no approval",
		proof: []string{"core/method/openid4vp:TestVerdicts", "core/internal/mdoc:TestElements",
			"core/method/openid4vp:TestResponse_Malformed"},
	},
	{
		tries: "bytes that are expensive to parse: deep nesting, lengths beyond the end, thousands of keys",
		gets:  "400 after little work",
		proof: []string{"core/internal/mdoc:TestHostileResponsesCostLittle", "core/cbor:TestVectors",
			"core/cbor:TestRead_ManyKeys", "core/cbor:TestRead_ItemLimit"},
	},
	{
		says: "An anchor that the operator removes is no proof after that, even for a response " +
			"that was accepted before and whose browser has not come yet.",
		tries: "a valid response after its anchor is gone, and before, with a restart in between",
		gets:  "400; the page to do the step again",
		proof: []string{"core/method/openid4vp:TestAnchor_Removed",
			"core/internal/hosted:TestPendingResponse_ChangedMeanwhile",
			"cmd/verge/internal/cli:TestTrust_Changes"},
	},
	{
		says: "A response counts for no higher age than its requested element proves, even if the " +
			"publisher asks for more later.",
		tries: "a response for 16, and a verdict of a phone, after the publisher asks for 21",
		gets:  "the page to do the step again",
		proof: []string{"core/internal/hosted:TestPendingResponse_ChangedMeanwhile",
			"core/internal/hosted:TestPendingResponse_CacheTooOld",
			"core/internal/hosted:TestHandOff_ChangedMeanwhile", "cmd/verge/internal/cli:TestTrust_Changes",
			"testharness/invariants:TestI16NothingStandsForMoreThanWasJudged"},
	},
	{
		says: "Through the browser, a response counts only for the page's own origin and question. " +
			"A zero-knowledge proof counts instead of the document only if the method accepts proofs, by a " +
			"circuit of its settings, for this session, and about a day at most before or after the " +
			"present. It hides a revoked document, and the type and namespace that the issuer has signed. " +
			"A user who declines loses no attempt.",
		tries: "a wallet's response to another site, to another question, by another " +
			"protocol, or altered on its way",
		gets: "400 or a failed attempt",
		proof: []string{"core/method/openid4vp:TestAttacksByTheBrowser",
			"core/method/openid4vp:TestAnswersByTheBrowser",
			"testharness/internal/methodtest:TestWallet_Browser",
			"testharness/internal/methodtest:TestWallet_BrowserAddress"},
	},
	{
		tries: "to decline, and a browser without the API",
		gets:  "the page to try again; the link and the code",
		proof: []string{"core/method/openid4vp:TestErrorsOfWallets",
			"testharness/internal/methodtest:TestWallet_UserDeclines",
			"cmd/verge/internal/demo:TestChromiumDigitalCredentials",
			"core/internal/hosted/pages:TestCredentialForm_Page"},
	},
}}

var codeSender = foothold{"Anyone who sends the code of their own session to another person", []row{
	{
		says: "The person who responds is verified for that session, because a response from " +
			"another device has no tie to a browser. The wallet names the site.",
		tries: "to have a victim's wallet respond to the code on the sender's page",
		gets:  "the sender's browser completes the session",
		proof: []string{
			"core/method/openid4vp:TestAnswers",
			"testharness/internal/methodtest:TestPendingResponse_OtherDevice",
		},
	},
	{
		says: "With cross_device = false, only a wallet on the browser's own device can respond, " +
			"and its user returns to a browser that completes the session only if it began the " +
			"session.",
		tries: "the code, the address without its suffix, a hand-off to the victim's phone, " +
			"and a response from " +
			"before the setting changed",
		gets: "no code, 404 and 400; the session stays pending",
		proof: []string{"core/method/openid4vp:TestCrossDevice_Off",
			"core/internal/hosted:TestHandOff_NoLongerAllowed",
			"testharness/internal/methodtest:TestWallet_SameDeviceOnly"},
	},
	{
		tries: "the link for the same device, opened on the victim's device",
		gets:  "the page that names the other browser; the session is pending",
		proof: []string{"testharness/internal/methodtest:TestWallet_SameDevice"},
	},
	{
		says:  "The browser chooses the wallet that responds to its own dialog.",
		tries: "a response by the Digital Credentials API with cross_device = false",
		gets:  "it is checked like any other",
		proof: []string{"core/method/openid4vp:TestCrossDevice_TheBrowserChooses"},
	},
}}

var passkeys = foothold{"The holder of a device with a passkey", []row{
	{
		says: "They complete sessions of the integrations that accept the passkey: up to the level " +
			"and the ages for which it was created, by a method that the integration offers " +
			"under settings that are no stricter, and until its time is over. A rejected passkey " +
			"does not change the session, and the page has the reason.",
		tries: "a passkey of L1 for L2, of another method, a lower age, another publisher or weaker " +
			"settings, and a passkey that is expired, ended, deleted or blocked",
		gets: "the page with the other methods; no attempt is counted",
		proof: []string{"core/internal/hosted:TestPasskey_Rejected",
			"core/internal/passkey:TestAccept_Reasons"},
	},
	{
		says: "A passkey counts while its basis holds: the kind and the settings of the method, " +
			"the trust anchor, and its publisher.",
		tries: "a passkey whose anchor was removed, whose method is of another kind or has other settings, " +
			"whose publisher is archived, and a passkey for settings that were saved after the check",
		gets: "the page with the other methods",
		proof: []string{"core/internal/hosted:TestPasskey_ChangedMeanwhile",
			"core/internal/hosted:TestPasskey_StandsForWhatWasJudged", "core/method/kinds:TestFingerprint",
			"core/method/kinds:TestTrusts", "cmd/verge/internal/cli:TestTrust_Changes",
			"testharness/invariants:TestI16NothingStandsForMoreThanWasJudged"},
	},
	{
		tries: "a response to another challenge, of another site or frame, of a user who was not verified, " +
			"altered, or signed by another key",
		gets: "400; no attempt is counted",
		proof: []string{
			"core/internal/hosted:TestPasskey_DamagedForm",
			"core/internal/passkey:TestUse_Rejected",
			"core/internal/webauthn:TestVerifyAssertion",
			"core/internal/webauthn:TestVerifyAssertion_ChangedBits",
		},
	},
	{
		tries: "the form of another session or attempt, and the form of the page that shows the stored data",
		gets:  "400, or the current page",
		proof: []string{"core/internal/hosted:TestPasskey_DamagedForm",
			"core/internal/hosted:TestOwnStepsAreForNoSession"},
	},
	{
		says: "A passkey is created from a check that has just succeeded, once, in the browser " +
			"that was checked. It is never created from another passkey, from a sandbox outside " +
			"of dev, or from a check before the operator ended the publisher's passkeys.",
		tries: "to create a passkey before the success, after a failure, of another's session, twice, " +
			"under another's id, and out of a session that a passkey or a sandbox completed, or that " +
			"completed before all were ended",
		gets: "400 or 403, and none is stored",
		proof: []string{"core/internal/hosted:TestMakingAPasskey",
			"core/internal/hosted:TestNoPasskeyAfterAFailure",
			"core/internal/hosted:TestPasskey_SameIDTwice",
			"core/internal/hosted:TestPasskey_CreateAndUse",
			"core/internal/passkey:TestKeep_Twice", "core/internal/passkey:TestRead_Rejected",
			"core/internal/hosted:TestPasskey_Sandbox", "core/internal/hosted:TestPasskey_ChangedMeanwhile",
			"core/internal/webauthn:TestVerifyRegistration"},
	},
	{
		says: "If the device counts the uses of a passkey, use of a copy blocks the passkey " +
			"permanently.",
		tries: "a copy that counts less, and two concurrent uses of one count",
		gets:  "a blocked passkey; one use",
		proof: []string{
			"core/internal/passkey:TestUse_Counters",
			"core/internal/passkey:TestUse_ConcurrentCounters",
			"core/internal/passkey:TestUse_Overtaken",
		},
	},
	{
		says: "Validate and the events have the same content as after any check, and two sessions of a " +
			"passkey have nothing in common. The publisher's list of finished sessions shows that a " +
			"passkey was used, and not which one.",
		tries: "as two publishers, to find the same user by the passkey",
		gets:  "facts without it",
		proof: []string{"testharness/conformance:TestPasskeys"},
	},
}}

var revoked = foothold{"Revoked documents", []row{
	{
		says: "A revoked document counts until Verge has fetched the issuer's next list, and as long " +
			"as no list is available unless `revocation` is `required`.",
		tries: "a revoked or suspended document, before and after the list is fetched again, and while the " +
			"list's server is away",
		gets: "a failed attempt with a list, and without a list the result that the setting defines",
		proof: []string{"core/method/openid4vp:TestRevocation", "core/method/openid4vp:TestRevocation_Cache",
			"testharness/conformance:TestWalletMatrix", "testharness/conformance:TestWalletRevocation"},
	},
	{
		tries: "the same document many times concurrently, while the list is being fetched",
		gets:  "no result without the list",
		proof: []string{"core/method/openid4vp:TestRevocation_Busy"},
	},
	{
		tries: "a status list or revocation list of another issuer, of another address, expired, replayed, " +
			"malformed or too large",
		gets: "the list is ignored",
		proof: []string{"core/internal/revocation:TestReadStatusList_Attacks",
			"core/internal/revocation:TestReadCRL_Attacks"},
	},
	{
		tries: "a document with an address of the attacker's choice that no issuer has signed",
		gets:  "no request to the address",
		proof: []string{"core/method/openid4vp:TestRevocation_AfterDocument"},
	},
	{
		says:  "A passkey that was created from a document is not checked again.",
		tries: "a passkey after its document was revoked",
		gets:  "the passkey counts, as long as the trust anchor is configured",
		proof: []string{"core/method/kinds:TestTrusts"},
	},
}}

var shared = foothold{"Shared passkeys", []row{
	{
		says: "Devices that copy passkeys to each other do not count uses, so a copy is not " +
			"noticed. Anyone who has the account that copies them, or can unlock the device, can " +
			"use the passkey of another person.",
		tries: "the same passkey on two devices that do not count",
		gets:  "both are accepted",
		proof: []string{"core/internal/passkey:TestUse_Counters"},
	},
}}
