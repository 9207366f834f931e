package pages

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/internal/language"
)

var placeholder = regexp.MustCompile(`\{[^}]*\}`)

func placeholders(s string) []string {
	return slices.Sorted(slices.Values(placeholder.FindAllString(s, -1)))
}

func TestLanguagesSayTheSameThings(t *testing.T) {
	files, err := messageFiles.ReadDir("messages")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(language.All) {
		t.Errorf("%d message files for %d languages", len(files), len(language.All))
	}
	english, err := readMessages(language.Default)
	if err != nil {
		t.Fatal(err)
	}
	for _, lang := range language.All {
		table, err := readMessages(lang)
		if err != nil {
			t.Fatal(lang, err)
		}
		for key, text := range table {
			want, ok := english[key]
			switch {
			case !ok:
				t.Errorf("%s has %q, which English has not", lang, key)
			case strings.TrimSpace(text) == "" || text != strings.TrimSpace(text):
				t.Errorf("%s: %q is empty or has blanks around it", lang, key)
			case !slices.Equal(placeholders(text), placeholders(want)):
				t.Errorf("%s: %q has the placeholders %v, English has %v",
					lang, key, placeholders(text), placeholders(want))
			case lang != language.Default && text == want:
				t.Errorf("%s: %q is still English", lang, key)
			case strings.ContainsAny(text, "<>&"):
				t.Errorf("%s: %q has markup, which would be shown as it is", lang, key)
			}
		}
		for key := range english {
			if _, ok := table[key]; !ok {
				t.Errorf("%s lacks %q", lang, key)
			}
		}
	}
}

// A second text under the same key would silently win.
func TestNoKeyTwice(t *testing.T) {
	for _, lang := range language.All {
		raw, err := messageFiles.ReadFile("messages/" + lang + ".json")
		if err != nil {
			t.Fatal(err)
		}
		dec := json.NewDecoder(bytes.NewReader(raw))
		tokens := 0
		for {
			if _, err := dec.Token(); err != nil {
				break
			}
			tokens++
		}
		table, err := readMessages(lang)
		if err != nil {
			t.Fatal(err)
		}
		if want := 2 + 2*len(table); tokens != want {
			t.Errorf("%s has %d keys too many", lang, (tokens-want)/2)
		}
	}
}

// TestTextsAreThereAndUsed notes which texts the pages take. Each of them exists, and no page leaves a text
// unused.
func TestTextsAreThereAndUsed(t *testing.T) {
	english, err := readMessages(language.Default)
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	watch := func(key string) string {
		if english[key] == "" {
			t.Errorf("a page takes %q, which is not there", key)
		}
		used[key] = true
		return english[key]
	}
	for name, v := range views() {
		if _, err := compose(v, language.Default, watch); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	used["passkey.name"] = true // PasskeyName takes it
	for _, key := range slices.Sorted(maps.Keys(english)) {
		if !used[key] {
			t.Errorf("no page takes %q", key)
		}
	}
}

// The pages tell the user which button to press, so its name must be the one on the button.
func TestProgressNamesItsButton(t *testing.T) {
	for _, lang := range language.All {
		text := messages(lang)
		if !strings.Contains(text("progress.text"), text("choice.check")) {
			t.Errorf("%s: %q does not name %q", lang, text("progress.text"), text("choice.check"))
		}
	}
}

// French sets a space before these signs and inside of its quotes, and a line may not end there.
func TestFrenchKeepsItsSigns(t *testing.T) {
	table, err := readMessages("fr")
	if err != nil {
		t.Fatal(err)
	}
	loose := regexp.MustCompile(`[^\x{a0}\x{202f}][:;!?»]|«[^\x{a0}]`)
	for key, text := range table {
		if loose.MatchString(text) {
			t.Errorf("%q has a sign without a space that holds: %q", key, text)
		}
	}
}

// Wordings that native readers stumbled over.
func TestMessages_Wording(t *testing.T) {
	for lang, wordings := range map[string][]string{
		"en": {"make a passkey", "made a passkey", "picture"},
		"de": {"ob sie aussehen wie", "nicht genau ein gesicht"},
		"fr": {"un regard vers la caméra", "exactement un visage"},
	} {
		table, err := readMessages(lang)
		if err != nil {
			t.Fatal(err)
		}
		for key, text := range table {
			for _, wording := range wordings {
				if strings.Contains(strings.ToLower(text), wording) {
					t.Errorf("contract 10: %s: %q has %q: %s", lang, key, wording, text)
				}
			}
		}
	}
}
