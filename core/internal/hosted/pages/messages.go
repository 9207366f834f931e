package pages

import (
	"embed"
	"encoding/json"
	"sync"

	"github.com/verge-id/verge/core/internal/language"
)

// The texts of a language are one flat JSON object in messages/<lang>.json. A test sees to it that all
// languages have the same keys and placeholders.
//
//go:embed messages/*.json
var messageFiles embed.FS

// texts returns the text under a key.
type texts func(key string) string

// tables parses a language when it is first needed, so that a WASM guest which serves the API alone does not
// pay for it.
var tables = func() map[string]func() map[string]string {
	m := make(map[string]func() map[string]string, len(language.All))
	for _, lang := range language.All {
		m[lang] = sync.OnceValue(func() map[string]string {
			table, err := readMessages(lang)
			if err != nil {
				panic(err) // embedded when this was built: tests have read it
			}
			return table
		})
	}
	return m
}()

func readMessages(lang string) (map[string]string, error) {
	raw, err := messageFiles.ReadFile("messages/" + lang + ".json")
	if err != nil {
		return nil, err
	}
	var table map[string]string
	err = json.Unmarshal(raw, &table)
	return table, err
}

func messages(lang string) texts {
	table := tables[lang]()
	return func(key string) string { return table[key] }
}
