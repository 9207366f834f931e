package cli

import (
	"maps"
	"slices"

	"github.com/alecthomas/kong"

	"github.com/verge-id/verge/cmd/verge/internal/config"
)

// variables are Verge's environment variables that belong to no flag.
var variables = append([]string{
	secretKeyVariable,

	// For the tests, which start this command with their own environment.
	"VERGE_BEFORE", "VERGE_BOLT_COMPACT_CHILD", "VERGE_BOLT_FULL_CHILD", "VERGE_BOLT_KILL_CHILD",
	"VERGE_FAULT_TIMES", "VERGE_HARNESS_ENGINE", "VERGE_HARNESS_KV", "VERGE_HARNESS_TURN",
	"VERGE_HARNESS_URL", "VERGE_LONG", "VERGE_LONGFELLOW", "VERGE_LONGFELLOW_PROVER",
	"VERGE_LONGFELLOW_VERIFIER", "VERGE_ONLY", "VERGE_PEERS", "VERGE_PICTURES", "VERGE_PROGRAMS",
	"VERGE_REQUIRE_REAL", "VERGE_SCRATCH_CHILD", "VERGE_SEED",
}, config.Variables...)

// knownVariables returns the names of all variables, in order.
func knownVariables() ([]string, error) {
	parser, err := kong.New(new(cli), listFlag, objectFlag, kong.ExplicitGroups(groups))
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, name := range variables {
		known[name] = true
	}
	for _, leaf := range parser.Model.Leaves(false) {
		for _, flag := range leaf.Flags {
			for _, name := range flag.Envs {
				known[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(known)), nil
}
