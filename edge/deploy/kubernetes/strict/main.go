// Command strict reads manifests by the types of Kubernetes' own API, and fails at an unknown field or a
// value of another type. It is a separate module, so that Verge does not depend on Kubernetes.
package main

import (
	"bytes"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// kinds are the types that manifests may have.
var kinds = map[metav1.TypeMeta]func() any{
	{Kind: "ConfigMap", APIVersion: "v1"}: func() any { return new(corev1.ConfigMap) },
	{Kind: "ServiceAccount", APIVersion: "v1"}: func() any {
		return new(corev1.ServiceAccount)
	},
	{Kind: "Service", APIVersion: "v1"}:         func() any { return new(corev1.Service) },
	{Kind: "Deployment", APIVersion: "apps/v1"}: func() any { return new(appsv1.Deployment) },
	{Kind: "PodDisruptionBudget", APIVersion: "policy/v1"}: func() any {
		return new(policy.PodDisruptionBudget)
	},
	{Kind: "NetworkPolicy", APIVersion: "networking.k8s.io/v1"}: func() any {
		return new(networkingv1.NetworkPolicy)
	},
}

func main() {
	failed := false
	for _, path := range os.Args[1:] {
		b, err := os.ReadFile(path)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		for n, part := range bytes.Split(b, []byte("\n---\n")) {
			if err := read(part); err != nil {
				failed = true
				fmt.Printf("%s, part %d: %v\n", path, n+1, err)
			}
		}
	}
	if failed {
		os.Exit(1)
	}
}

func read(part []byte) error {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(part, &kind); err != nil {
		return err
	}
	made := kinds[kind]
	if made == nil {
		return fmt.Errorf("%s of %s is not expected here", kind.Kind, kind.APIVersion)
	}
	if err := yaml.UnmarshalStrict(part, made()); err != nil {
		return fmt.Errorf("%s: %w", kind.Kind, err)
	}
	return nil
}
