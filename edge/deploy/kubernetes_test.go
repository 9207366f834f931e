package deploy

import (
	"os/exec"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/verge-id/verge/testharness/long"
)

// TestManifests_References reads the manifests: what one names, another has, and the pods have no more
// rights than they need.
func TestManifests_References(t *testing.T) {
	of := map[string]map[string]any{}
	for part := range strings.SplitSeq(read(t, "kubernetes/verge.yaml"), "\n---\n") {
		var m map[string]any
		if err := yaml.Unmarshal([]byte(part), &m); err != nil {
			t.Fatal(err)
		}
		name, _ := at(m, "metadata", "name").(string)
		if at(m, "metadata", "namespace") != "verge" {
			t.Errorf("%v %s is not in the namespace verge", m["kind"], name)
		}
		of[m["kind"].(string)+" "+name] = m
	}
	pod := of["Deployment verge"]
	for _, c := range []struct {
		why  string
		path []any
		want any
	}{
		{"three instances", []any{"spec", "replicas"}, 3},
		{"none is missed in an upgrade", []any{"spec", "strategy", "rollingUpdate", "maxUnavailable"}, 0},
		{"the user of the image", []any{"spec", "template", "spec", "securityContext", "runAsUser"}, 65532},
		{"not root", []any{"spec", "template", "spec", "securityContext", "runAsNonRoot"}, true},
		{"system calls are filtered", []any{"spec", "template", "spec", "securityContext", "seccompProfile",
			"type"}, "RuntimeDefault"},
		{"no way to more rights", []any{"spec", "template", "spec", "containers", 0, "securityContext",
			"allowPrivilegeEscalation"}, false},
		{"nothing is written", []any{"spec", "template", "spec", "containers", 0, "securityContext",
			"readOnlyRootFilesystem"}, true},
		{"no capability", []any{"spec", "template", "spec", "containers", 0, "securityContext",
			"capabilities", "drop", 0}, "ALL"},
		{"no credential for the cluster", []any{"spec", "template", "spec", "automountServiceAccountToken"},
			false},
		{"what is alive", []any{"spec", "template", "spec", "containers", 0, "livenessProbe", "httpGet",
			"path"}, "/healthz"},
		{"what is ready", []any{"spec", "template", "spec", "containers", 0, "readinessProbe", "httpGet",
			"path"}, "/readyz?store=ignore"},
		{"what has started", []any{"spec", "template", "spec", "containers", 0, "startupProbe", "httpGet",
			"path"}, "/readyz"},
	} {
		if got := at(pod, c.path...); got != c.want {
			t.Errorf("%s: %v is %v, want %v", c.why, c.path, got, c.want)
		}
	}
	for name, path := range map[string][]any{
		"Deployment verge":          {"spec", "selector", "matchLabels", "app"},
		"Service verge":             {"spec", "selector", "app"},
		"Service verge-ops":         {"spec", "selector", "app"},
		"PodDisruptionBudget verge": {"spec", "selector", "matchLabels", "app"},
		"NetworkPolicy verge":       {"spec", "podSelector", "matchLabels", "app"},
	} {
		if got, want := at(of[name], path...), at(pod, "spec", "template", "metadata", "labels",
			"app"); got != want {
			t.Errorf("%s selects %v, and the pods are %v", name, got, want)
		}
	}
	if of["ConfigMap verge"] == nil || of["ServiceAccount verge"] == nil {
		t.Error("the pods name a ConfigMap and a ServiceAccount that are not there")
	}
}

// at walks down maps and lists.
func at(v any, path ...any) any {
	for _, step := range path {
		switch s := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[s]
		case int:
			l, _ := v.([]any)
			if s >= len(l) {
				return nil
			}
			v = l[s]
		}
	}
	return v
}

// TestManifests_Schema reads the manifests by the types of Kubernetes' API.
func TestManifests_Schema(t *testing.T) {
	long.Skip(t, "TestManifests_Schema")
	cmd := exec.Command("go", "run", ".", "../verge.yaml")
	cmd.Dir = "kubernetes/strict"
	out, err := cmd.CombinedOutput()
	if err != nil && strings.Contains(string(out), "dial tcp") {
		t.Skipf("SKIP: the types of Kubernetes cannot be fetched here: %s", out)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
