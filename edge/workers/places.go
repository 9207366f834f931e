package workers

import "slices"

// Compatibility is the date of the platform's behaviour for which the Worker is written, and Flag the
// compatibility flag that it needs.
const (
	Compatibility = "2026-11-01"
	Flag          = "enable_request_signal"
)

// Jurisdictions returns the values of the variable JURISDICTION. The Worker has them from src/routes.js.
func Jurisdictions() []string { return slices.Clone(jurisdictions) }

// LocationHints returns the values of the variable LOCATION_HINT.
func LocationHints() []string { return slices.Clone(locationHints) }

var (
	jurisdictions = []string{"eu", "us", "fedramp", "fedramp-high"}
	locationHints = []string{"wnam", "enam", "sam", "weur", "eeur", "apac", "apac-ne", "apac-se", "oc", "afr",
		"me"}
)
