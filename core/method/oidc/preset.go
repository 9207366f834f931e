package oidc

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/verge-id/verge/core/internal/strictjson"
	"github.com/verge-id/verge/core/problem"
)

// presetFile has the presets by their names. A preset has settings, which a method's own replace one by one,
// and may have choices: settings of its own, whose value stands for {name} in all its texts. An empty list of
// choices takes any word.
//
//go:embed presets.json
var presetFile []byte

// presetNames returns the names of all presets, in the order of the file.
func presetNames() (names []string) {
	for name := range presets().All() {
		names = append(names, name)
	}
	return names
}

func presets() strictjson.Object {
	o, err := strictjson.Read(presetFile)
	if err != nil {
		panic("oidc: presets.json: " + err.Error()) // a fault of this release
	}
	return o
}

// withPreset returns the settings together with the settings of the preset that they name, and the names of
// the fields that only a preset has. The error is a problem.List.
func withPreset(o strictjson.Object) (settings strictjson.Object, known []string, err error) {
	known = []string{"preset"}
	v := o.Value("preset")
	if !v.Present() {
		return o, known, nil
	}
	name, _ := v.Text()
	preset, ok := presets().Value(name).Object()
	if !ok {
		return o, known, problem.List{{Member: "preset",
			Text: "unknown preset; the presets are: " + strings.Join(presetNames(), ", ")}}
	}
	text := preset.Value("settings").JSON()
	var wrong problem.List
	choices, _ := preset.Value("choices").Object()
	for choice, allowed := range choices.All() {
		known = append(known, choice)
		value, _ := o.Value(choice).Text()
		if !isWord(value) {
			wrong.Add(choice, "the preset %s needs it: a word of letters, digits and _ - . :", name)
		} else if all := texts(allowed); len(all) > 0 && !slices.Contains(all, value) {
			wrong.Add(choice, "%q is not allowed by the preset %s: %s", value, name,
				strings.Join(all, ", "))
		}
		text = strings.ReplaceAll(text, "{"+choice+"}", value)
	}
	if len(wrong) > 0 {
		return o, known, wrong
	}
	defaults, err := strictjson.Read([]byte(text))
	if err != nil {
		panic("oidc: the preset " + name + ": " + err.Error()) // a fault of this release
	}
	return o.Or(defaults), known, nil
}

// isWord reports whether s can stand inside a text of a preset without meaning anything else.
func isWord(s string) bool {
	const word = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:"
	return s != "" && len(s) <= 64 && strings.Trim(s, word) == ""
}
