package main

import (
	"strings"
	"testing"

	"github.com/verge-id/verge/core/host"
)

// A table fits into 100 columns (contract 47), also with more sessions a day than most services have.
func TestTheTableOfUsageIsNarrow(t *testing.T) {
	p, out, _ := testProgram()
	row := []string{"2026-11-20"}
	for range host.Outcomes() {
		row = append(row, "1000000")
	}
	if err := printTable(p, usageHeads(), [][]string{row}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if n := len(strings.TrimSpace(line)); n > 100 {
			t.Errorf("contract 47: a line has %d characters: %s", n, line)
		}
	}
}
