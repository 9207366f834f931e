package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Coverage counts the histories that had a transition after a fault.
type Coverage struct {
	seeds int
	cells map[string]*[switches + 1]int // by transition; the last one is all seeds

	pending map[string]*[switches]bool // of the present history
}

// reach records that a transition happened after these faults.
func (c *Coverage) reach(transition string, after *[switches]bool) {
	if c.pending == nil {
		c.pending = map[string]*[switches]bool{}
	}
	row := c.pending[transition]
	if row == nil {
		row = &[switches]bool{}
		c.pending[transition] = row
	}
	for f, seen := range after {
		row[f] = row[f] || seen
	}
}

// add adds the present history.
func (c *Coverage) add() {
	if c.cells == nil {
		c.cells = map[string]*[switches + 1]int{}
	}
	c.seeds++
	for transition, row := range c.pending {
		cell := c.cells[transition]
		if cell == nil {
			cell = &[switches + 1]int{}
			c.cells[transition] = cell
		}
		cell[switches]++
		for f, seen := range row {
			if seen {
				cell[f]++
			}
		}
	}
	c.pending = nil
}

// Merge adds the counts of another Coverage.
func (c *Coverage) Merge(other *Coverage) {
	if c.cells == nil {
		c.cells = map[string]*[switches + 1]int{}
	}
	c.seeds += other.seeds
	for transition, row := range other.cells {
		if c.cells[transition] == nil {
			c.cells[transition] = &[switches + 1]int{}
		}
		for n := range row {
			c.cells[transition][n] += row[n]
		}
	}
}

// String is a table: transitions by faults, in histories.
func (c *Coverage) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-28s%8s", "histories with, after", "any")
	for f := range switches {
		if name := switchInfo[f].name; f != switchTurns {
			fmt.Fprintf(&b, "%9s", shorten(name))
		}
	}
	for _, transition := range slices.Sorted(maps.Keys(c.cells)) {
		row := c.cells[transition]
		fmt.Fprintf(&b, "\n%-28s%8d", transition, row[switches])
		for f := range switches {
			if f != switchTurns {
				fmt.Fprintf(&b, "%9d", row[f])
			}
		}
	}
	return b.String()
}

func shorten(name string) string { return name[:min(8, len(name))] }
