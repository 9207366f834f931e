package workers

// Where Cloudflare can keep Durable Objects: the values of JURISDICTION and LOCATION_HINT.
var (
	jurisdictions = []string{"eu", "us", "fedramp", "fedramp-high"}
	locationHints = []string{
		"wnam",
		"enam",
		"sam",
		"weur",
		"eeur",
		"apac",
		"apac-ne",
		"apac-se",
		"oc",
		"afr",
		"me",
	}
)
