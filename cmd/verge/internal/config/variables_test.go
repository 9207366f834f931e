package config

import (
	"strings"
	"testing"
)

// TestCheckVariables: the rejected names, and the errors.
func TestCheckVariables(t *testing.T) {
	t.Parallel()
	sys := testSystem()
	sys.Variables = func() ([]string, error) {
		return []string{"VERGE_KV", "VERGE_SEED", "VERGE_OPERATOR_TOKEN"}, nil
	}
	sys.Environ = []string{"PATH=/bin", "VERGEX=1", "VERGE_KV=memory", "VERGE_SEED=1", "VERGE_NAMED=1",
		"VERGE_EMPTY=",
		"VERGE_PORT=tcp://10.0.0.1:80", "VERGE_OPS_PORT_80_TCP_PROTO=tcp", "VERGE_OPS_SERVICE_PORT=80"}
	var ps problems
	checkVariables(sys, []string{"VERGE_NAMED"}, &ps)
	if len(ps) != 0 {
		t.Errorf("refused: %v", ps)
	}
	sys.Environ = []string{"VERGE_PORT=80", "VERGE_OPERATOR_TOKN=s3cret", "VERGE_NAMED=1", "VERGE_=1"}
	checkVariables(sys, nil, &ps)
	if len(ps) != 4 || strings.Contains(strings.Join(ps, " "), "s3cret") ||
		!strings.Contains(strings.Join(ps, " "), "VERGE_OPERATOR_TOKN; did you mean VERGE_OPERATOR_TOKEN?") {
		t.Errorf("said: %q", ps)
	}
}
