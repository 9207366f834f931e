//go:build !unix

package cli

import "os/exec"

// killGroup does nothing: the end of cmd's context kills cmd alone.
func killGroup(*exec.Cmd) {}
