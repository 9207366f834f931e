package transcript_test

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/verge-id/verge/edge/transcript"
	"github.com/verge-id/verge/wasm/abi"
)

// A transcript can contain every entry and every record of the ABI by its name in ABI.md, except the two
// that are not part of a step.
func TestNames_MatchABI(t *testing.T) {
	text, err := os.ReadFile("../../wasm/ABI.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok1 := strings.Cut(string(text), "\n## Entries\n")
	entries, rest, ok2 := strings.Cut(rest, "\n## Records\n")
	records, _, ok3 := strings.Cut(rest, "\n## ")
	if !ok1 || !ok2 || !ok3 {
		t.Fatal("ABI.md has other sections")
	}
	row := regexp.MustCompile(`(?m)^\| (\d+) \| ([^|]+) \|`)
	check := func(what, table string, least int, absent string, name func(n int) string) {
		rows := row.FindAllStringSubmatch(table, -1)
		if len(rows) < least {
			t.Errorf("%d rows of %s in ABI.md", len(rows), what)
		}
		for _, r := range rows {
			n, err := strconv.Atoi(r[1])
			want := r[2]
			if want == absent {
				want = ""
			}
			if got := name(n); err != nil || got != want {
				t.Errorf("%s %d, %s in ABI.md, is %q here", what, n, r[2], got)
			}
		}
	}
	check("entry", entries, 9, "self-test", func(n int) string {
		return transcript.Step{Entry: abi.Entry(n)}.EntryName()
	})
	check("record", records, 12, "respond", func(n int) string {
		return transcript.Event{Kind: abi.Kind(n)}.KindName()
	})
}
