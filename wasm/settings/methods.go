package settings

import (
	"maps"
	"slices"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/wasm/abi"
)

// packMethods returns the methods that unpackMethods turns back into list. Their secrets are plain. Dev is
// not transferred, because it is the service's.
func packMethods(list []method.Config) []abi.Method {
	var packed []abi.Method
	for _, m := range list {
		packed = append(packed, abi.Method{
			Name:     m.Name,
			Kind:     m.Kind,
			Level:    m.Level,
			Title:    packTitle(m),
			Settings: slices.Clone(m.Settings),
			Secrets:  maps.Clone(m.Secrets),
			Keys:     slices.Clone(m.Keys),
		})
	}
	return packed
}

// unpackMethods returns the methods of a configuration whose secrets are plain (abi.OpenSecrets).
func unpackMethods(list []abi.Method) []method.Config {
	var all []method.Config
	for _, m := range list {
		all = append(all, method.Config{
			Name:     m.Name,
			Kind:     m.Kind,
			Level:    m.Level,
			Title:    m.Title[""],
			Titles:   unpackTitles(m.Title),
			Settings: m.Settings,
			Secrets:  m.Secrets,
			Keys:     m.Keys,
		})
	}
	return all
}

// packTitle returns a method's titles. The title for all other languages is under "".
func packTitle(m method.Config) abi.Title {
	title := maps.Clone(abi.Title(m.Titles))
	if m.Title == "" {
		return title
	}
	if title == nil {
		title = abi.Title{}
	}
	title[""] = m.Title
	return title
}

func unpackTitles(title abi.Title) map[string]string {
	titles := maps.Clone(map[string]string(title))
	delete(titles, "")
	if len(titles) == 0 {
		return nil
	}
	return titles
}
