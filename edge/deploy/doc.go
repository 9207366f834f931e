// Package deploy has no code. Its folders contain files for operators to copy: a unit for systemd,
// configurations of proxies, a Containerfile, manifests for Kubernetes, alert rules, a dashboard and the
// runbook for backups. Tests check each file with the program that reads it.
package deploy
