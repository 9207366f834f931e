package scale

import (
	"flag"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/verge-id/verge/testharness/long"
)

var (
	sessionsFlag  = flag.Int("sessions", 0, "number of sessions of each part; 0: a smoke test")
	storesFlag    = flag.String("stores", "memory,bolt,redis,postgres", "stores to measure")
	instancesFlag = flag.String("instances", "1,2,4", "numbers of instances, if the store allows several")
	timersFlag    = flag.String("timers", "1000,100000", "numbers of timers for claims, ascending")
	usersFlag     = flag.Int("users", 16, "number of sessions that are walked at the same time")
	outFlag       = flag.String("out", "", "file for the tables")
)

// TestScale measures and writes the tables. Without -sessions it checks that every part of the tool works.
func TestScale(t *testing.T) {
	sessions, timers := *sessionsFlag, numbers(t, *timersFlag)
	names, instances := strings.Split(*storesFlag, ","), numbers(t, *instancesFlag)
	smoke := sessions == 0
	if smoke {
		sessions, instances, timers = 20, []int{1}, []int{50, 100}
		names = long.Pick(t, "TestScale", []string{"memory", "bolt"}, names)
	}
	var results []result
	var claim []claimed
	var counters []counter
	for _, s := range all {
		if !slices.Contains(names, s.name) {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			for _, n := range instances {
				if n > 1 && !s.shared {
					continue
				}
				t.Logf("%s: %d instances", s.name, n)
				results = append(results, measure(t, s, n, sessions))
			}
			claim = append(claim, claims(t, s, timers)...)
			if s.shared {
				counters = append(counters, spends(t, s, 10*sessions))
			}
		})
	}
	text := report(results, claim, counters, sessions)
	for _, r := range results {
		checkResult(t, r)
		if !strings.Contains(text, "| "+r.store+" | ") {
			t.Errorf("the tables lack %s:\n%s", r.store, text)
		}
	}
	if smoke {
		checkPage(t, text)
	}
	if *outFlag == "" {
		t.Log(text)
	} else if err := os.WriteFile(*outFlag, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// checkResult finds measurements that cannot be true.
func checkResult(t *testing.T, r result) {
	t.Helper()
	// Start, the form, and validate commit. Every event is claimed and then completed.
	if r.calls["commit"] < 3 || r.calls["get"] < 1 {
		t.Errorf("%s: a session had %v calls of the store", r.store, r.calls)
	}
	if r.wall <= 0 || r.rest <= 0 || r.peak < r.rest {
		t.Errorf("%s: a session took %s, memory %v, at most %v", r.store, r.wall, r.rest, r.peak)
	}
	if r.store != "memory" && (r.finished.rows <= 0 || r.pending.rows <= 0) {
		t.Errorf("%s: a session adds %v rows while pending, and %v after its end", r.store, r.pending.rows,
			r.finished.rows)
	}
	if (r.store == "redis" || r.store == "postgres") && r.connections < 1 {
		t.Errorf("%s: no connections", r.store)
	}
}

// checkPage compares the titles of the tables with the page of the guide.
func checkPage(t *testing.T, text string) {
	t.Helper()
	guide, err := os.ReadFile("../../cmd/verge/OPERATING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page, _ := strings.Cut(string(guide), "\n## Capacity\n")
	page, _, _ = strings.Cut(page, "\n## ")
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "**") && !strings.Contains(page, line) {
			t.Errorf("the page \"Capacity\" lacks the table %s; insert the output of make scale",
				strings.TrimSpace(line))
		}
	}
}

// numbers parses a list such as 1,2,4.
func numbers(t *testing.T, list string) (all []int) {
	t.Helper()
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 {
			t.Fatalf("%q is no list of numbers", list)
		}
		all = append(all, n)
	}
	return all
}
