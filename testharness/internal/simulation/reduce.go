package simulation

import (
	"fmt"
	"strings"
)

// maxTries bounds the histories that Reduce runs.
const maxTries = 3000

// Reduce returns the story of a short history that breaks the same promise as the history of r. It makes
// decisions quiet, half of them first, then fewer, as long as the promise breaks.
func (r *Runner) Reduce(bad Result) string {
	promise := promiseOf(bad)
	kept, tries := bad.made, 0
	for size := (len(kept) + 1) / 2; size > 0 && tries < maxTries; {
		shorter := false
		for at := 0; at < len(kept) && tries < maxTries; {
			keep := make(map[decision]bool, len(kept))
			for n, d := range kept {
				if n < at || n >= at+size {
					keep[d] = true
				}
			}
			tries++
			got := r.run(bad.Seed, options{keep: keep})
			if promiseOf(got) != promise || len(got.made) >= len(kept) {
				at += size
				continue
			}
			kept, shorter = got.made, true
		}
		if !shorter || size > len(kept) {
			size /= 2
		}
	}
	keep := make(map[decision]bool, len(kept))
	for _, d := range kept {
		keep[d] = true
	}
	var lines []string
	last := r.run(bad.Seed, options{keep: keep, record: func(line string) { lines = append(lines, line) }})
	return fmt.Sprintf(
		"seed %d breaks %s\nreduced from %d decisions to %d, by %d runs; %d calls of ports\n%s", bad.Seed,
		promise, len(bad.made), len(kept), tries, last.Steps, strings.Join(lines, "\n"))
}

// promiseOf returns the name of the first promise that a history breaks, or "".
func promiseOf(r Result) string {
	if len(r.Broke) == 0 {
		return ""
	}
	name, _, _ := strings.Cut(r.Broke[0], ":")
	return name
}
