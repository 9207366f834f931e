package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// simulate runs the simulator on each mutant, and prints how many seeds it needs to find it.
func simulate(ctx context.Context, root string, chosen []mutant, seeds int) error {
	work, err := os.MkdirTemp("", "verge-mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	tree, found := newTree(root), 0
	for i, m := range chosen {
		var c change
		if c.file, c.text, c.err = tree.apply(m); c.err != nil {
			return fmt.Errorf("%s: %w", m.at, c.err)
		}
		result, err := simulateOne(ctx, root, filepath.Join(work, fmt.Sprint(i)), c, seeds)
		if err != nil {
			return fmt.Errorf("%s: %w", m.at, err)
		}
		if result == "" {
			result = fmt.Sprintf("not found in %d seeds", seeds)
		} else {
			found++
		}
		fmt.Printf("%s: %s\n        %s\n", m.pkg, m.breaks, result)
	}
	fmt.Printf("\n%d mutants, %d found by the simulator\n", len(chosen), found)
	return nil
}

// simulateOne returns the simulator's line about the first failure, or "".
func simulateOne(ctx context.Context, root, dir string, c change, seeds int) (string, error) {
	overlay, err := c.overlay(root, dir)
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "simulate")
	build := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "-o", program,
		"./testharness/internal/simulation/simulate")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("does not compile: %w: %s", err, out)
	}
	defer os.Remove(program) // all of them together would fill a disk
	out, err := exec.CommandContext(ctx, program, "-brief", "-seeds", fmt.Sprint(seeds)).CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		return "", err
	}
	if ended != nil && !strings.HasPrefix(string(out), "after ") {
		return "the simulation panics: " + strings.SplitN(string(out), "\n", 2)[0], nil
	}
	return strings.TrimSpace(string(out)), nil
}
