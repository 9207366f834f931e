package workers

// For the tests of package workers_test.
var (
	Jurisdictions = jurisdictions
	LocationHints = locationHints
)
