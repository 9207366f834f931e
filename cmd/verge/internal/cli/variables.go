package cli

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// prefix begins the names of all variables that are Verge's.
const prefix = "VERGE_"

// variables are those of Verge's variables that belong to no flag.
var variables = []string{
	operatorTokenVariable, kvPasswordVariable, kvKeyVariable, secretKeyVariable,

	// Of the tests, which start this command with the variables that they were given.
	"VERGE_BEFORE", "VERGE_BOLT_FULL_CHILD", "VERGE_BOLT_KILL_CHILD", "VERGE_FAULT_TIMES",
	"VERGE_HARNESS_ENGINE", "VERGE_HARNESS_KV", "VERGE_HARNESS_TURN", "VERGE_HARNESS_URL", "VERGE_LONG",
	"VERGE_ONLY", "VERGE_PICTURES", "VERGE_PROGRAMS", "VERGE_REQUIRE_REAL", "VERGE_SCRATCH_CHILD",
	"VERGE_SEED",
}

// knownVariables returns the names of all variables, in order.
func knownVariables() ([]string, error) {
	parser, err := kong.New(new(cli), kong.ExplicitGroups(groups))
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

// serviceLink matches the variables that Kubernetes gives to a container for each service whose name begins
// with verge. The value is matched as well, so that a number that a person gives is not taken for one.
var serviceLink = regexp.MustCompile(`^VERGE_(.+_)?` +
	`(SERVICE_HOST=.*|SERVICE_PORT(_.+)?=\d+|PORT(_\d+_(TCP|UDP|SCTP))?=\w+://.*|` +
	`PORT_\d+_(TCP|UDP|SCTP)_(PROTO|PORT|ADDR)=.*)$`)

// checkVariables refuses each variable that begins with VERGE_ and means nothing, since its name may be
// mistyped. named are those that the configuration names.
func checkVariables(p *program, named []string, ps *problems) {
	known, err := knownVariables()
	ps.addLines("", err)
	for _, v := range slices.Sorted(slices.Values(p.environ)) {
		name, value, _ := strings.Cut(v, "=")
		if value == "" || !strings.HasPrefix(name, prefix) || slices.Contains(known, name) ||
			slices.Contains(named, name) || serviceLink.MatchString(v) {
			continue
		}
		says := "unset it, or correct its name"
		for _, k := range known {
			if distance(k, name) <= 2 {
				says = "did you mean " + k + "?"
			}
		}
		ps.add("environment: there is no variable %s; %s", name, says)
	}
}

// variables returns the names of the variables that the configuration says hold a secret.
func (c *config) variables() (named []string) {
	for _, i := range c.Integrations {
		named = append(named, i.SecretEnv)
	}
	for _, m := range c.Methods {
		for _, table := range m {
			settings, _ := table.(map[string]any)
			for key, value := range settings {
				if name, ok := value.(string); ok && strings.HasSuffix(key, "_env") {
					named = append(named, name)
				}
			}
		}
	}
	return named
}
