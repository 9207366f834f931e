package surface

// remaining lists the names that only their own top-level folder uses, and that are not yet internal. Names
// may be removed from it. Do not add any.
var remaining = []string{
	"core/admin.CheckToken",
	"core/cbor.MaxSize",
	"core/cbor.ReadFirst",
	"core/operate.ErrArchived",
	"core/operate.ErrManaged",
	"core/operate.ErrNeedsOrigins",
	"core/ratelimit.FromMeter",
	"core/operate.MethodsOf",
	"core/ratelimit.Window",
	"core/secret.Problem",
	"core/setting.SetDefaults",
	"core/web.Codes",
	"core/web.ErrNotFound",
	"core/web.JSONBytes",
	"core/web.ParseWeight",
	"edge/engine.ErrNoUsage",
	"kvadapters/redis.New",
	"testharness/testenv.CompiledIn",
	"testharness/testenv.Scratch",
	"testharness/long.Table",
	"testharness/oidctest.AgeProof",
	"testharness/stores.StartPostgresOnDisk",
	"testharness/wallettest.AnnexC",
	"wasm/effect.ProofVerifier",
}
