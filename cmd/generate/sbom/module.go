package main

import (
	"errors"
	"fmt"
	"net/url"
	"runtime/debug"
	"strings"
)

// module is a linked module, with the content that was used for it.
type module struct{ path, version, sum string }

// standard is the module that scanners know the standard library by.
const standard = "std"

// modulesOf returns the modules of a binary: first the main module, last the standard library.
func modulesOf(info *debug.BuildInfo) ([]module, error) {
	if info.Main.Path == "" {
		return nil, errors.New("it does not name its main module; build it with go build")
	}
	linked := []module{{path: info.Main.Path, version: info.Main.Version}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		if m.Version == "" {
			return nil, fmt.Errorf("it has %s from a directory, whose content is unknown; "+
				"build it without that replacement", m.Path)
		}
		linked = append(linked, module{m.Path, m.Version, m.Sum})
	}
	return append(linked, module{path: standard, version: goVersion(info)}), nil
}

// packageURL returns the name by which scanners know a version of a module. Theirs has no capital letters.
func packageURL(m module) string {
	purl := "pkg:golang/" + strings.ToLower(m.path)
	if m.version == "" || strings.HasPrefix(m.version, "(") { // "(devel)": built from a work tree
		return purl
	}
	return purl + "@" + url.QueryEscape(m.version) // a "+" of a version is written %2B
}

// goVersion returns the version of Go that built a binary, such as 1.26.1, without the experiments after a
// space.
func goVersion(info *debug.BuildInfo) string {
	version, _, _ := strings.Cut(info.GoVersion, " ")
	return strings.TrimPrefix(version, "go")
}

// setting returns how a binary was built.
func setting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}
