package attackers

var signedModule = foothold{"A trusted WebAssembly module", []row{
	{
		says: "It has the authority of the key ring: it can have any data sealed, opened and " +
			"signed, reads and writes the store, and responds to every request. It sends requests to any " +
			"public address, and to the private networks that the operator has allowed for a method.",
		tries: "to let it have tokens sealed, opened and signed",
		gets:  "the same as the native core, byte for byte",
		proof: []string{"edge/wasmhost:TestSealing_GuestAndHost"},
	},
	{
		tries: "to respond to requests, to read and write the store and to post events",
		gets:  "all of it, to public addresses and the networks of methods: it is the whole service",
		proof: []string{"edge/wasmhost:TestEngine_CoreResponds", "testharness/conformance:TestWalkInAGuest",
			"edge/egress:TestGuard_PublicDestinations", "edge/egress:TestAllowance_PrivateNetwork"},
	},
	{
		says: "It sees no key, file or other process. If it breaks the protocol, its guests end " +
			"and the server continues.",
		tries: "every notice and effect, malformed and in any order",
		gets:  "the end of its own guest; a neighbour keeps responding",
		proof: []string{"edge/wasmhost:TestHostileModule_Random", "edge/wasmhost:TestGuestOutput_Notices",
			"edge/wasmhost:TestGuestOutput_Store",
			"edge/wasmhost:TestGuestOutput_HostPanic"},
	},
	{
		tries: "invented counter names, endless log lines, log lines in another's name",
		gets:  "the end of that guest, or lines that are cut and marked as a guest's",
		proof: []string{"edge/wasmhost:TestGuestLog_Lines", "edge/wasmhost:TestOutbox_OtherRequest",
			"edge/internal/server:TestMetrics_UnknownNames"},
	},
	{
		tries: "to trap, or to fail soon after the takeover",
		gets:  "503 for that request, and the previous module takes over again",
		proof: []string{"cmd/verge/internal/cli:TestRollbackUnderAServer",
			"edge/wasmhost:TestProbation_RollBack"},
	},
	{
		says:  "An endless loop stops the process, unless interruptible is set.",
		tries: "an endless loop, with `interruptible`",
		gets:  "the end at the request's deadline",
		proof: []string{"edge/wasmhost:TestInstance_Failures",
			"cmd/verge/internal/cli:TestGuestsThatFailUnderAServer"},
	},
	{
		says:  "If an operator sends it, it does not replace a later version.",
		tries: "an older signed module, or one below `module_min_version`",
		gets:  "409, and the module in use stays active",
		proof: []string{"cmd/verge/internal/modules:TestOlderModulesAreRejected",
			"cmd/verge/internal/modules:TestTrust"},
	},
}}

var unsignedModule = foothold{"An untrusted WebAssembly module", []row{
	{
		says: "It runs in dev alone: elsewhere a module needs its digest in the configuration or a " +
			"signature by the configured key.",
		tries: "a module without pin and signature, with a signature by another key, with another module's " +
			"signature",
		gets: "a rejection with the reason; the module in use stays active",
		proof: []string{"cmd/verge/internal/modules:TestTrust/nothing pinned where something must be",
			"cmd/verge/internal/modules:TestTrust/signed by another key",
			"cmd/verge/internal/modules:TestTrust/another module's signature",
			"cmd/verge/internal/cli:TestModule_Rejected",
			"cmd/verge/internal/cli:TestHangUpReadsPins"},
	},
	{
		says: "Neither the digest nor the signature protects against an attacker who can write to " +
			"the directory of compiled modules, since those are machine code.",
		tries: "a directory of compiled modules that others can write to, or one above it",
		gets:  "a failed start, with the fix",
		proof: []string{"cmd/verge/internal/modules:TestCheckCache"},
	},
}}
