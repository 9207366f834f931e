package workers_test

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/edge/workers"
)

// README.md lists each log line and each event of the Worker's code.
func TestReadme_LogsAndMetrics(t *testing.T) {
	b, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	readme := string(b)
	message := regexp.MustCompile(`message: "([^"]+)"|outbox\.\w+\([^)]*\), "([^"]+)"|` +
		`returnLease, "([^"]+)"|` +
		`: "(partition [a-z]+)"`)
	found := 0
	err = fs.WalkDir(workers.Source, "src", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := workers.Source.ReadFile(path)
		for _, m := range message.FindAllStringSubmatch(string(text), -1) {
			found++
			if !strings.Contains(readme, "`"+strings.Join(m[1:], "")+"`") {
				t.Errorf("contract 48: README.md lacks the log line %q of %s", strings.Join(m[1:], ""), path)
			}
		}
		return err
	})
	if err != nil || found < 20 {
		t.Errorf("%d messages, %v", found, err)
	}
	for _, name := range slices.Concat(host.CountNames(), workers.Jurisdictions(), workers.LocationHints()) {
		if !strings.Contains(readme, "`"+name+"`") {
			t.Errorf("README.md lacks %s", name)
		}
	}
}
