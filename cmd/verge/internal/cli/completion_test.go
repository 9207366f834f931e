package cli

import (
	"context"
	"slices"
	"strings"
	"testing"
)

// TestComplete shows the completions of a word, by the words before it.
func TestComplete(t *testing.T) {
	t.Parallel()
	p, _, _ := testProgram()
	parser, _, err := newParser(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		typed string // words; the last one is completed
		want  string
	}{
		{"pub", "publisher"},
		{"comp", "completion"}, // and not the command behind it
		{"publisher ", "archive change create list show"},
		{"publisher c", "change create"},
		{"publisher create --na", "--name"},
		{"member invite --role ", "admin developer viewer"},
		{"member invite --role de", "developer"},
		{"member invite --role=d", "developer"},
		{"member invite --role = d", "developer"}, // as bash cuts it
		{"member invite --json --ro", "--role"},
		{"member invite --publisher member --ro", "--role"}, // a value is no command
		{"member role mem_1 v", "viewer"},
		{"help member si", "sign-out"},
		{"completion ", "bash fish zsh"},
		{"delivery list --state ", "dead delivered waiting"},
		{"apply ver", ""}, // a file, which the shell completes
		{"nowhere ", "-"}, // any output: nothing panics
		{"", "-"},
	} {
		var got []string
		for _, found := range complete(parser.Model, strings.Split(tt.typed, " ")) {
			got = append(got, found.word)
		}
		if tt.want == "-" {
			if !slices.Contains(got, "publisher") || slices.Contains(got, "complete") {
				t.Errorf("%q becomes %v", tt.typed, got)
			}
			continue
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%q becomes %q, want %q", tt.typed, got, tt.want)
		}
	}
	if len(complete(parser.Model, nil)) == 0 {
		t.Error("no words at all: nothing is offered")
	}
}
