package long

// Table lists the promises that only the long run covers in full, and the part that the short run covers.
var Table = []entry{
	{
		Package: "cmd/verge/internal/cli", Test: "TestInit_Group",
		Only:  "a server of another user, with files that root has created and rotated",
		Short: "the owner and mode of replaced files (cmd/verge/internal/config:TestWritePrivate_KeepsOwner)",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestMove_Publisher",
		Only:  "300 sessions at the new deployment after the move",
		Short: "12 sessions there",
	},
	{
		Package: "testharness/scale", Test: "TestScale",
		Only:  "the measurement of capacity with 20 sessions on Redis and PostgreSQL",
		Short: "the same on memory and bolt",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestTrust_Proofs",
		Only:  "sessions over the binary with proofs by the prover of google/longfellow-zk",
		Short: "requests and responses with a test double (core/method/openid4vp)",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestTrust_ProofAttacks",
		Only:  "attacks on the binary with proofs by the prover of google/longfellow-zk",
		Short: "the same with a test double (core/method/openid4vp:TestProofs_Rejected)",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestProofInChromium",
		Only:  "fresh proofs by the wallet of a real browser, over the binary",
		Short: "the same responses with a test double (core/method/openid4vp:TestProofs_Protocols)",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestAlerts_Provoked",
		Only:  "alerts that are provoked against the real binary, evaluated by promtool",
		Short: "a test of each alert (edge/deploy:TestAlerts_EachTested)",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestMethodProof",
		Only:  "`verge method proof` with the published response of a wallet",
		Short: "the check of responses without a circuit (core/internal/mdoc:TestVerifyZK)",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestReport_Month",
		Only:  "the report of a month with 1,000 sessions, verified by openssl",
		Short: "the report of a month whose counts are set (core/operate:TestReport_Content)",
	},
	{
		Package: "edge/deploy", Test: "TestAlertsDoWhatTheirTestsSay",
		Only:  "alerts with made-up series",
		Short: "the syntax of the alerts, and a test of each (TestAlerts_EachTested)",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestServe_KeysInAgent",
		Only:  "a server whose private keys are in a PKCS#11 token",
		Short: "the same agent without a server (edge/signing)",
	},
	{
		Package: "testharness/invariants", Test: "TestRedisThatLosesEverything",
		Only:  "a Redis that is emptied",
		Short: "a Redis that restarts without its data",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestServeWasm",
		Only:  "a restart of `verge serve --engine wasm` on Redis",
		Short: "the same on bolt, and guests on miniredis (testharness/conformance:TestEngines)",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestEngineWasm",
		Only:  "a restart of `verge dev --engine wasm` on each other store, and a start that compiles",
		Short: "a restart on bolt of a compiled module",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestConsoleByKeyboard",
		Only:  "the walk of a new publisher through the console by the keyboard alone, in a real browser",
		Short: "the same forms without a browser (TestConsole)",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestConsoleInChromium",
		Only:  "the walk of a new publisher through the console in a real browser with passkeys",
		Short: "the same walk without a browser, on every store and engine (TestConsole)",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestReadmePictures",
		Only:  "the pages of README's pictures, whose texts are compared with the time of the pictures",
		Short: "README.md shows both pictures (TestReadme_ShowsPictures)",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestPasskeysInChromium",
		Only:  "passkeys of users in a real browser",
		Short: "the same walk without a browser, on every store and engine (TestPasskeys)",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestProductionInChromium",
		Only:  "a service in production in a real browser",
		Short: "the same walk without a browser (TestProduction)",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestPlantedCookiesInChromium",
		Only:  "cookies that another host plants in a real browser",
		Short: "the same requests without a browser (TestPlantedCookies)",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestProxies",
		Only:  "a verification through each sample of a proxy",
		Short: "none: the proxies have to be started",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestProxies_StoreAway",
		Only: "ten seconds without the store behind each sample of a proxy",
		Short: "the check that the samples ask, without a proxy " +
			"(edge/internal/server:TestHealth_ReadyWithoutStore)",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestFleet_Cluster",
		Only:  "limits and a revocation across three instances on a Redis Cluster",
		Short: "the counters of one adapter (kvadapters/redis:TestCluster_Counters)",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestKill",
		Only:  "200 kills of a process on each of bolt and Redis",
		Short: "2 kills on each",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestI15IdleConnectionsCostNobodyElseAnything",
		Only:  "1,536 and 8,000 idle connections, and each limit on each engine",
		Short: "the limits of connections with few of them (edge/internal/server)",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestInstancesShare",
		Only:  "three processes on a Cluster and on PostgreSQL",
		Short: "three processes on Redis",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestKVCheckTakesWhatServeTakes",
		Only:  "`verge kv check` with the addresses and settings of `verge serve`",
		Short: "`verge kv check` with the defaults (kvadapters/kvcheck:TestRun)",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestACME",
		Only:  "certificates from an ACME server",
		Short: "certificates from files (TestCertificateFiles)",
	},
	{
		Package: "edge/wasmhost", Test: "TestHostileModule_Random",
		Only:  "600 random records of hostile modules",
		Short: "100 of them",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestSeries",
		Only:  "a series of kills, rotations and a failover on each store as it is recommended",
		Short: "kills (TestKill), and failovers of each adapter in its package",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestRotationInAFleet",
		Only:  "a rotation under full load, by each way to hand out the file, on Redis and PostgreSQL",
		Short: "rotations of instances in one process (core/keyset:TestRotation_NoFailures)",
	},
	{
		Package: "edge/workers", Test: "TestRotation_NextSecret",
		Only:  "a rotation of the ring of a Worker",
		Short: "rotations of instances in one process (core/keyset:TestRotation_NoFailures)",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestKVCheckWithTheDocumentedPermissions",
		Only:  "`verge kv check` with the documented permissions of Redis and PostgreSQL",
		Short: "`verge kv check` with all permissions (kvadapters/kvcheck:TestRun)",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestLeasesOfTheDeadAndTheFrozen",
		Only:  "leases of killed and stopped processes",
		Short: "leases in one process (testharness/invariants:TestI10LeasesEndWithinTheRecovery)",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestServe_H2spec",
		Only:  "the cases of h2spec",
		Short: "uploads before the settings of HTTP/2 (edge/internal/server:TestHTTP2_BodyBeforeSettings)",
	},
	{
		Package: "testharness/internal/simulation", Test: "TestHistories",
		Only:  "2,000 random histories",
		Short: "50 of them",
	},
	{
		Package: "testharness/internal/simulation", Test: "TestHistories_SameSeed",
		Only:  "60 histories, each run three times",
		Short: "8 of them",
	},
	{
		Package: "testharness/invariants", Test: "TestFaultsOfACluster",
		Only:  "slots that move, and a node that fails, under load",
		Short: "faults of one Redis (TestFaultsOfRedis), and slots that move (TestI1ValidateIsLinearizable)",
	},
	{
		Package: "testharness/invariants", Test: "TestI6CompletionRacesExpiry",
		Only:  "several rounds of races",
		Short: "one round",
	},
	{
		Package: "cmd/generate/sbom", Test: "TestList_Binary",
		Only:  "the list of a binary that the test builds",
		Short: "the list of a release whose build the test invents (TestList_Release)",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestI14AMomentaryStorageFailureNeedsNobody",
		Only:  "limits of the size of files, read-only disks, and guests",
		Short: "a full disk, and an error after the write",
	},
	{
		Package: "edge/workers", Test: "TestWorker_WrongConfiguration",
		Only:  "each wrong value of the configuration of a Worker",
		Short: "one of each kind",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestMoveToAWorkerAndBack",
		Only:  "a native deployment that moves to a Worker and back, by the commands",
		Short: "exports and imports of one partition (edge/workers:TestExport_IsConsistent, TestImport_Lock)",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestRecipes_Backup",
		Only:  "backup and restore of Redis and PostgreSQL by the commands of BACKUP.md",
		Short: "backup and restore of bolt",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestUpgrade",
		Only:  "an upgrade from the previous release and back, under load",
		Short: "none: the previous release has to be built first",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestRollingUpgradeBehindProxies",
		Only:  "an upgrade from the release before and back behind three proxies, under load",
		Short: "one verification through each proxy (TestProxies)",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestGuestsThatFailUnderAServer",
		Only:  "guests that fail under the command",
		Short: "guests that fail in one process (edge/wasmhost:TestInstance_Failures)",
	},
	{
		Package: "cmd/verge/internal/demo", Test: "TestChromiumBank",
		Only:  "an OpenID provider in a real browser",
		Short: "the same walk without a browser, on every store and engine (package methodtest)",
	},
	{
		Package: "cmd/verge/internal/demo", Test: "TestChromiumCamera",
		Only:  "the camera in a real browser",
		Short: "the same walk without a browser, on every store and engine (package methodtest)",
	},
	{
		Package: "cmd/verge/internal/demo", Test: "TestChromiumDigitalCredentials",
		Only:  "the wallet of a real browser",
		Short: "the same responses from a wallet in Go, on every store and engine",
	},
	{
		Package: "cmd/verge/internal/demo", Test: "TestChromiumHandOff",
		Only:  "continuing on a phone in real browsers",
		Short: "the same walk without a browser, on every store and engine (package methodtest)",
	},
	{
		Package: "cmd/verge/internal/demo", Test: "TestChromiumHandOffPages",
		Only:  "the pages of a hand-off in six languages, on a phone and a computer",
		Short: "the pages of all methods in six languages without a browser (core/internal/hosted/pages)",
	},
	{
		Package: "cmd/verge/internal/demo", Test: "TestChromiumMethodPages",
		Only:  "the pages of the methods in English, German and French, and in light and dark",
		Short: "the pages of all methods in six languages without a browser (core/internal/hosted/pages)",
	},
	{
		Package: "cmd/verge/internal/demo", Test: "TestChromiumPasskeyPages",
		Only:  "the pages of passkeys in six languages, on a phone and a computer",
		Short: "the pages of all methods in six languages without a browser (core/internal/hosted/pages)",
	},
	{
		Package: "cmd/verge/internal/demo", Test: "TestChromiumWaiting",
		Only:  "codes and links of wallets as real browsers show them",
		Short: "one walk with a wallet in a real browser (TestChromiumWallet)",
	},
	{
		Package: "cmd/verge/internal/demo", Test: "TestChromiumWalletPages",
		Only:  "the pages of wallets in six languages, on a phone and a computer",
		Short: "the pages of all methods in six languages without a browser (core/internal/hosted/pages)",
	},
	{
		Package: "core/internal/console", Test: "TestPagesAreAccessible",
		Only:  "axe-core and the width of the screen on every page of the console",
		Short: "every page by every role without a browser, and the sign-in in the browser",
	},
	{
		Package: "core/internal/console", Test: "TestRejectedFormsAreAccessible",
		Only:  "axe-core on forms that come back",
		Short: "the forms that come back without a browser",
	},
	{
		Package: "core/internal/mdoc", Test: "TestVerify_FlippedBits",
		Only:  "every bit of responses of three issuers, one changed at a time",
		Short: "every 31st bit of each",
	},
	{
		Package: "core/internal/revocation", Test: "TestReadStatusList_Peers",
		Only:  "status lists that two libraries in Node have issued",
		Short: "a list of the specification (TestReadStatusList_Vectors)",
	},
	{
		Package: "core/internal/sdjwt", Test: "TestVerify_EveryBit",
		Only:  "every bit of a presentation, one changed at a time",
		Short: "every 61st bit",
	},
	{
		Package: "core/internal/sdjwt", Test: "TestVerify_Peers",
		Only:  "presentations of another library, and ours verified by it",
		Short: "a presentation that it has made (TestVerify_Recorded)",
	},
	{
		Package: "core/internal/troubleshooting", Test: "TestReceiversPassTheProbes",
		Only:  "receivers in Node, Go and PHP",
		Short: "the receiver in Python",
	},
	{
		Package: "core/internal/snippet", Test: "TestChecksAcceptWhatTheVectorsSay",
		Only:  "the checks of a webhook in Node, Python, PHP, Ruby, Java and C#",
		Short: "the check in Go",
	},
	{
		Package: "edge/internal/longfellow", Test: "TestCircuit_PublishedResponse",
		Only:  "the published proof of age, and statements that it does not show",
		Short: "the proofs of the specification's own circuits (TestVerify_Specification)",
	},
	{
		Package: "edge/internal/longfellow", Test: "TestCircuit_ChangedProof",
		Only:  "2,000 changes of each published proof",
		Short: "changes of small proofs (TestVerify_ChangedProof, TestCircuit_SmallChanges)",
	},
	{
		Package: "edge/internal/longfellow", Test: "TestCircuit_Vectors",
		Only:  "the published proofs for versions 6 and 7, and statements that they do not show",
		Short: "true and false statements about our own circuits (TestCircuit_Small)",
	},
	{
		Package: "edge/internal/longfellow", Test: "TestCircuit_SmallChanges",
		Only:  "a change of each byte of a proof for our own circuits",
		Short: "a change of each 97th byte",
	},
	{
		Package: "edge/internal/longfellow", Test: "TestVerify_ChangedProof",
		Only:  "a change of each byte of the specification's proofs",
		Short: "a change of each 997th byte",
	},
	{
		Package: "edge/internal/longfellow", Test: "TestReadCircuit_Chunks",
		Only:  "a circuit with more different terms than a chunk has",
		Short: "small circuits (TestVerify_Specification)",
	},
	{
		Package: "edge/workers", Test: "TestModuleUpgrade",
		Only:  "a new module of a Worker that has one more kind of method",
		Short: "a new module with the same code",
	},
	{
		Package: "edge/workers", Test: "TestProvider_Slow",
		Only:  "a provider that takes 2.6 s for each response, on each engine",
		Short: "a slow provider on a test clock, without a server",
	},
	{
		Package: "edge/workers", Test: "TestPicture_Largest",
		Only:  "pictures of 1 MiB through guests, on wazero and on workerd",
		Short: "pictures of 1 MiB through the native core",
	},
	{
		Package: "testharness/corpus", Test: "TestStandardWebhooks_RecordedEvents",
		Only:  "the npm libraries of Standard Webhooks on all recorded events",
		Short: "the Go library on all recorded events",
	},
	{
		Package: "testharness/examples", Test: "TestShops",
		Only:  "a walk with the shops in Express and in Flask",
		Short: "their check of a webhook against the signature vectors (core/internal/snippet)",
	},
	{
		Package: "testharness/examples", Test: "TestSDK_Node",
		Only:  "the packed npm package: its errors, repetitions, types and all vectors of events",
		Short: "none of it: the package has to be compiled first",
	},
	{
		Package: "testharness/examples", Test: "TestSDK_Python",
		Only:  "the wheel: its errors, repetitions, types and all vectors of events",
		Short: "none of it: the wheel has to be built first",
	},
	{
		Package: "testharness/examples", Test: "TestSDK_Workerd",
		Only:  "a publisher on workerd that uses the packed npm package",
		Short: "none of it: the package has to be compiled first",
	},
	{
		Package: "testharness/examples", Test: "TestStaticPage",
		Only:  "a walk with the static page in a real browser",
		Short: "starts with a public key without a browser",
	},
	{
		Package: "edge/deploy", Test: "TestImage_Runs",
		Only:  "the container image, built and run",
		Short: "that every build is configured as static",
	},
	{
		Package: "edge/deploy", Test: "TestManifests_Schema",
		Only:  "every field of the manifests, by the types of Kubernetes' API",
		Short: "that the manifests name each other rightly, and what rights the pods have",
	},
	{
		Package: "edge/deploy", Test: "TestRelease_TwoBuilds",
		Only:  "the binary, built twice from two directories and compared",
		Short: "the configuration of releases is read, and its builds are configured as reproducible",
	},
	{
		Package: "kvadapters/postgres", Test: "TestLongSnapshot",
		Only:  "the time of a claim while a backup or a replica keeps 12,000 completed tasks, and afterwards",
		Short: "the removal of expired items under a snapshot (TestSweep_LongSnapshot)",
	},
	{
		Package: "kvadapters/postgres", Test: "TestSweep_LongSnapshot",
		Only:  "the removal of 20,000 expired items under a snapshot",
		Short: "of 4,000",
	},
	{
		Package: "kvadapters/postgres", Test: "TestFailover_HangingLink",
		Only:  "failovers to a replica that has not had the last commits, synchronous and asynchronous",
		Short: "a failover to a synchronous replica that has them (TestFailover_SynchronousReplica)",
	},
	{
		Package: "kvadapters/redis", Test: "TestClaim_ManyPending",
		Only:  "a claim among 1,000,000 tasks",
		Short: "among 100,000",
	},
	{
		Package: "kvadapters/redis", Test: "TestKVOnMiniredis",
		Only:  "the promises on miniredis next to Redis",
		Short: "on Redis where it is installed, otherwise on miniredis",
	},
	{
		Package: "testharness/invariants", Test: "TestFaultsOfTheNetwork",
		Only:  "the invariants on miniredis next to Redis",
		Short: "on Redis where it is installed, otherwise on miniredis",
	},
	{
		Package: "testharness/internal/methodtest", Test: "TestMethods",
		Only:  "the suite of methods on the harness alone",
		Short: "on every store and engine (testharness/conformance), and the example Courier",
	},
	{
		Package: "testharness/internal/methodtest", Test: "TestSignedRequests",
		Only:  "the suite of signed requests on the harness alone",
		Short: "on every store and engine (testharness/conformance)",
	},
	{
		Package: "core/internal/mdoc", Test: "TestAnswersOfAuth0",
		Only:  "responses that @auth0/mdl makes during the test",
		Short: "its recorded responses (core/internal/mdoc)",
	},
	{
		Package: "core/internal/mdoc", Test: "TestAnswersOfAuth0_DCAPI",
		Only:  "responses of the DC API that @auth0/mdl makes during the test",
		Short: "its recorded responses (core/internal/mdoc)",
	},
	{
		Package: "kvadapters/kvcheck", Test: "TestCheck",
		Only:  "a check that finds a store that breaks a promise, on every kind of store",
		Short: "a check of every store, and of one in memory that breaks each promise in turn",
	},
	{
		Package: "testharness/clients", Test: "TestLintersFindNothing",
		Only:  "the linters redocly and spectral on the description",
		Short: "the description is valid, and its examples fit its schemas",
	},
	{
		Package: "testharness/clients", Test: "TestOpenIDClient",
		Only:  "verifications by the npm library openid-client through the OpenID provider",
		Short: "the same requests with the library go-oidc (TestOpenIDClient_Go)",
	},
	{
		Package: "testharness/clients", Test: "TestOpenIDClient_Apache",
		Only:  "verifications by Apache with mod_auth_openidc in front of a static site",
		Short: "the same requests with the library go-oidc (TestOpenIDClient_Go)",
	},
	{
		Package: "testharness/clients", Test: "TestOpenIDClient_AuthJS",
		Only:  "verifications by the npm library @auth/core, on which NextAuth is built",
		Short: "the same requests with the library go-oidc (TestOpenIDClient_Go)",
	},
	{
		Package: "testharness/clients", Test: "TestOpenIDClient_Chromium",
		Only:  "a verification on a phone's screen in a real browser, in front of Apache",
		Short: "the same requests with the library go-oidc (TestOpenIDClient_Go)",
	},
	{
		Package: "testharness/clients", Test: "TestOpenIDClient_OAuth2Proxy",
		Only:  "verifications by oauth2-proxy in front of a site",
		Short: "the same requests with the library go-oidc (TestOpenIDClient_Go)",
	},
	{
		Package: "testharness/clients", Test: "TestPatterns_SameInEachLanguage",
		Only:  "the patterns of the description in JavaScript, Python and PHP",
		Short: "the patterns in Go, by every response in the tests",
	},
	{
		Package: "testharness/clients", Test: "TestStandardWebhooks_DocumentedCode",
		Only:  "the documented code with a library of Standard Webhooks, in Node and Go",
		Short: "the libraries themselves (TestStandardWebhooks_Go)",
	},
	{
		Package: "testharness/clients", Test: "TestStandardWebhooks_Node",
		Only:  "the npm libraries of Standard Webhooks on the vectors, all probes and a service's events",
		Short: "the Go library on the vectors and all probes (TestStandardWebhooks_Go)",
	},
	{
		Package: "testharness/clients", Test: "TestClient_Go",
		Only:  "a walk with the client that oapi-codegen generates",
		Short: "every response in the tests matches the description",
	},
	{
		Package: "testharness/clients", Test: "TestClient_TypeScript",
		Only:  "a walk with the client that openapi-typescript generates",
		Short: "every response in the tests matches the description",
	},
	{
		Package: "testharness/bench", Test: "BenchmarkConsole",
		Only:  "the console's pages with 1,000,000 deliveries, which take minutes to create",
		Short: "10,000 deliveries",
	},
	{
		Package: "testharness/conformance", Test: "TestZeroKnowledge",
		Only:  "proofs by the prover of google/longfellow-zk, by each protocol",
		Short: "the published proof (TestSet_Published), and requests and responses with a test double",
	},
	{
		Package: "testharness/conformance", Test: "TestEngines",
		Only: "every test on every engine",
		Short: "all on miniredis; a walk, single use, partitions, a restart and the first case of each " +
			"method on every engine; a sixth of the documents of wallets on wasm and on workerd",
	},
	{
		Package: "edge/internal/trustlist", Test: "TestXMLSec_ChangedBytes",
		Only:  "two signed lists with each byte changed, in two ways of 25",
		Short: "each 199th byte, in each way",
	},
	{
		Package: "edge/otlp", Test: "TestSpans",
		Only: "the spans of a service that runs guests",
		Short: "those of the native service, and the context of a guest's effect " +
			"(TestEffect_Context)",
	},
	{
		Package: "testharness/conformance", Test: "TestMutatedTokens",
		Only:  "100,000 random mutations of good tokens",
		Short: "10,000 of them",
	},
	{
		Package: "testharness/conformance", Test: "TestRaces",
		Only:  "60 rounds of each race to end a session",
		Short: "10 rounds",
	},
	{
		Package: "testharness/conformance", Test: "TestSingleUseIsLinearizable",
		Only:  "20,000 histories of exchanges of one token",
		Short: "2,000 histories",
	},
	{
		Package: "testharness/conformance", Test: "TestWalkInAGuest",
		Only:  "a walk in a guest that the test's own process runs",
		Short: "all suites in a guest of another process, with TestWalk and TestSingleUse (TestEngines)",
	},
	{
		Package: "testharness/invariants", Test: "TestI16NothingStandsForMoreThanWasJudged",
		Only:  "600 steps at random on each store",
		Short: "60 steps on each",
	},
	{
		Package: "testharness/invariants", Test: "TestI1ValidateIsLinearizable",
		Only:  "40 to 60 tokens on each store that clients race for while requests and replies are lost",
		Short: "a quarter of them",
	},
	{
		Package: "testharness/invariants", Test: "TestFaultsOfPostgres",
		Only:  "a PostgreSQL that restarts, fails over, is read-only, waits for no replica or is suspended",
		Short: "a killed server, a network that fails, and a failover in kvadapters/postgres",
	},
	{
		Package: "testharness/invariants", Test: "TestKillOfRedisUnderAThousandEvents",
		Only:  "1,000 events in flight when Redis is killed",
		Short: "200 events",
	},
	{
		Package: "testharness/npmwallet", Test: "TestVerifiers_AcceptWallet",
		Only:  "verifiers that others have written",
		Short: "vectors that they have made (core/internal/mdoc)",
	},
	{
		Package: "testharness/npmwallet", Test: "TestOthersAnswerOurCredentialRequests",
		Only:  "a wallet that others have written, asked by a browser",
		Short: "a wallet in Go, on every store and engine",
	},
	{
		Package: "testharness/npmwallet", Test: "TestAnswer_IndependentWallet",
		Only:  "a wallet that others have written",
		Short: "a wallet in Go, on every store and engine",
	},
	{
		Package: "testharness/npmwallet", Test: "TestAnswerCredo_Documents",
		Only:  "a wallet that others have written (Credo)",
		Short: "a wallet in Go, on every store and engine",
	},
	{
		Package: "testharness/npmwallet", Test: "TestOthersVerifyOurReaderAuth",
		Only:  "a library that others have written",
		Short: "a wallet in Go, on every store and engine",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestSwapUnderLoad",
		Only:  "a module replaced again and again under load by the command",
		Short: "the same replacements in one process (edge/wasmhost:TestStress_AllEvents)",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestRollbackUnderAServer",
		Only:  "a server that goes back to the module before",
		Short: "the engine that goes back (edge/wasmhost:TestProbation_RollBack)",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestReplayInAGuest",
		Only:  "a recording that the command replays in a guest, with and without a difference",
		Short: "the same without the command (testharness/corpus:TestEnginesAreTheSame)",
	},
	{
		Package: "edge/wasmhost", Test: "TestClose_WhileActivating",
		Only:  "an engine that closes while it compiles a module that was never compiled",
		Short: "an engine that closes while it serves (TestStress_AllEvents)",
	},
	{
		Package: "edge/workers", Test: "TestAlarm_Backlog",
		Only:  "more due events than one alarm delivers",
		Short: "single events by alarm (TestEventsAreDeliveredByAlarm)",
	},
	{
		Package: "edge/workers", Test: "TestGetAndCommitAreLinearizable",
		Only:  "histories of clients of a Durable Object",
		Short: "the promises one by one (TestKV), and the histories on the other stores",
	},
	{
		Package: "edge/workers", Test: "TestLeases_FleetLimit",
		Only:  "isolates that share a limit under load",
		Short: "the leases of one isolate (TestLeasesOfTwoLimits)",
	},
	{
		Package: "edge/workers", Test: "TestAlarm_SlowReceiver",
		Only:  "a receiver in front of the Worker that takes seconds",
		Short: "a slow receiver of the native service (testharness/invariants)",
	},
	{
		Package: "edge/workers", Test: "TestCountersOutliveAPause",
		Only:  "counters of an object that was evicted",
		Short: "counters of an object that runs (TestLimitsHoldAcrossIsolates)",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestModule_Rejected",
		Only:  "modules that compile and fail the command's tests",
		Short: "modules that the command refuses unread, and all of them in one process (edge/wasmhost)",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestTrust_Changes",
		Only:  "trust that changes under a guest",
		Short: "the same natively, and under a guest by I16 (testharness/invariants)",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestProduction",
		Only:  "a provider from npm, and a guest with a real provider",
		Short: "a provider in Go natively, and a guest with ours (testharness/conformance:TestMethodOIDC)",
	},
	{
		Package: "edge/wasmhost", Test: "TestLoad_FlatMemory",
		Only:  "60,000 requests to one guest",
		Short: "up to 12,000 requests",
	},
	{
		Package: "edge/deploy", Test: "TestRelease_Signature",
		Only:  "the signature of a release's checksums, verified by minisign",
		Short: "the settings of the signature",
	},
	{
		Package: "wasm/internal/loopopt", Test: "TestModule_Flow",
		Only:  "a program in Go whose control flow is optimized",
		Short: "functions at random (TestModule_RandomFunctions), and one of each shape (TestModule_Shapes)",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestScripts",
		Only:  "each rejected configuration at a start, too",
		Short: "with --check alone; some at a start, too (TestCheckAndStartSayTheSame)",
	},
	{
		Package: "testharness/conformance", Test: "TestStoreFaults",
		Only:  "each fault while claims see stale lists",
		Short: "each fault, while claims see the present list",
	},
	{
		Package: "wasm/internal/loopopt", Test: "TestModule_RandomFunctions",
		Only:  "2,000 random functions",
		Short: "400 of them",
	},
	{
		Package: "cmd/verge/internal/cli", Test: "TestServe_ChromiumUploads",
		Only:  "uploads on a new connection by a real browser",
		Short: "the same frames by h2spec (TestServe_H2spec)",
	},
	{
		Package: "cmd/verge/internal/demo", Test: "TestHopAddress",
		Only:  "addresses with every character that a callback may have, in a real browser",
		Short: "five kinds of callbacks (TestHop)",
	},
	{
		Package: "cmd/verge/internal/demo", Test: "TestLayout",
		Only:  "the layout of every page on phones and a desktop in a real browser",
		Short: "the pages without a browser (core/internal/hosted/pages)",
	},
	{
		Package: "core/internal/hosted/pages", Test: "TestChromiumBrands",
		Only:  "axe-core on pages with 200 random accent colours in a real browser",
		Short: "the contrast of 2,000 accents, computed (core/internal/brand)",
	},
}
