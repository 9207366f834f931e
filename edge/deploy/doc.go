// Package deploy has no code. Its folders hold what operators copy: a unit for systemd, configurations of
// proxies, a Containerfile, manifests for Kubernetes, and the runbook for backups. Its tests hold each of
// them to what it says, by the programs that read it.
package deploy
