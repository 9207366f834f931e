package config

import (
	"regexp"
	"slices"
	"strings"

	"github.com/verge-id/verge/cmd/verge/internal/words"
)

// prefix is the prefix of Verge's environment variables.
const prefix = "VERGE_"

// Variables are the environment variables of a configuration that belong to no flag.
var Variables = []string{OperatorTokenVariable, kvPasswordVariable, kvKeyVariable}

// serviceLink matches the variables that Kubernetes gives to a container for each service whose name begins
// with verge. The value is also matched, so that a value set by an operator is not mistaken for such a
// variable.
var serviceLink = regexp.MustCompile(`^VERGE_(.+_)?` +
	`(SERVICE_HOST=.*|SERVICE_PORT(_.+)?=\d+|PORT(_\d+_(TCP|UDP|SCTP))?=\w+://.*|` +
	`PORT_\d+_(TCP|UDP|SCTP)_(PROTO|PORT|ADDR)=.*)$`)

// checkVariables rejects unknown variables that begin with VERGE_, because the name may be mistyped. named
// are the variables that the configuration uses.
func checkVariables(sys *System, named []string, ps *problems) {
	known, err := sys.Variables()
	ps.addLines("", err)
	for _, v := range slices.Sorted(slices.Values(sys.Environ)) {
		name, value, _ := strings.Cut(v, "=")
		if value == "" || !strings.HasPrefix(name, prefix) || slices.Contains(known, name) ||
			slices.Contains(named, name) || serviceLink.MatchString(v) {
			continue
		}
		says := "unset it, or correct its name"
		for _, k := range known {
			if words.Distance(k, name) <= 2 {
				says = "did you mean " + k + "?"
			}
		}
		ps.add("environment: unknown variable %s; %s", name, says)
	}
}

// variables returns the names of the variables with secrets in the configuration.
func (c *File) variables() (named []string) {
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
