package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// known has the licenses by the hash of their words. For an unknown text, the list has no license, because
// this program does not guess. Before you add a row, read the text and compare it with the text that spdx.org
// has under that name.
var known = map[string]string{
	"3346c203353b286e2021c9b077352db1dea97d9ce7043ac910dee821f174a656": "MIT",
	"c18d21ff8de22b8b024cc00d704d5579452ba581c9eb8f4e7d88ef6a52aded10": "Apache-2.0",
	"52b32e300a0ecb69de8550f9e383823fecaafcb14d030c20f401dc676b61a38b": "Apache-2.0", // without its appendix
	"ea024e97a6f9c9959a7b07228273172c9ddcab43d0e512b6ff3e44b1ce34748f": "BSD-3-Clause",
	"969096095458619e1d848ac09f25633dfd04a444358cf08235f311aba6248cfe": "BSD-2-Clause",
	"b9ccfef05d5df55a89850921c082fc93ff6595d44a2fd65b92c5551eea3d48b8": "MPL-2.0", // with its owner before it
	"67a9878ded6a1f45e15ac9633f73313c15061663d03c98b37f209e5e0545018a": "CC0-1.0", // with its name before it
	"2e41cf113411d443f4f842114682e931f32ddf9b163efe96087cdc53c49f3d57": "Apache-2.0 AND BSD-3-Clause",
	"db06db78ec0e200f05ba83ca51ac4d871fe63642ab0d1299c7adfe23a0505a88": "Apache-2.0 AND BSD-3-Clause AND MIT",
}

// licensesOf returns the licenses of a binary's modules that are known.
func licensesOf(info *debug.BuildInfo, linked []module) (map[module]string, error) {
	found, err := directories(info)
	if err != nil {
		return nil, err
	}
	of := map[module]string{}
	for n, m := range linked {
		at := module{path: m.path, version: m.version}
		if n == 0 {
			at.version = "" // the source is a work tree
		}
		dir, ok := found[at]
		if !ok {
			return nil, fmt.Errorf("%s %s is in the binary, and the source here is built without it: "+
				"check out what the binary was built from, and use the Go that built it", m.path, m.version)
		}
		if of[m], err = licenseIn(dir); err != nil {
			return nil, err
		}
	}
	return of, nil
}

// directories returns where this machine has the modules from which the source here is built for the binary's
// platform.
func directories(info *debug.BuildInfo) (map[module]string, error) {
	env := os.Environ()
	for _, key := range []string{"GOOS", "GOARCH", "CGO_ENABLED"} {
		if value := setting(info, key); value != "" {
			env = append(env, key+"="+value)
		}
	}
	ask := func(args ...string) (string, error) {
		cmd := exec.Command("go", args...)
		var said bytes.Buffer
		cmd.Env, cmd.Stderr = env, &said
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("go %s: %w\n%s", args[0], err, &said)
		}
		return string(out), nil
	}
	const format = "{{with .Module}}{{with .Replace}}{{.Path}}\t{{.Version}}\t{{.Dir}}{{else}}" +
		"{{.Path}}\t{{.Version}}\t{{.Dir}}{{end}}{{end}}"
	packages, err := ask("list", "-deps", "-f", format, info.Path)
	if err != nil {
		return nil, err
	}
	found := map[module]string{}
	for line := range strings.Lines(packages) {
		if part := strings.Split(strings.TrimRight(line, "\n"), "\t"); len(part) == 3 {
			found[module{path: part[0], version: part[1]}] = part[2]
		}
	}
	here, err := ask("env", "GOVERSION", "GOROOT")
	if err != nil {
		return nil, err
	}
	if version, root, ok := strings.Cut(strings.TrimSpace(here), "\n"); ok && version == info.GoVersion {
		found[module{path: standard, version: goVersion(info)}] = root
	}
	return found, nil
}

var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying)(\.txt|\.md)?$`)

// licenseIn returns the license of the module in a directory, or "" if it is not known. Several files do not
// state whether all of them apply, or one of them, so they count as unknown.
func licenseIn(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var names []string
	for _, e := range entries {
		if licenseFile.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	if len(names) != 1 {
		return "", nil
	}
	text, err := os.ReadFile(filepath.Join(dir, names[0]))
	if err != nil {
		return "", err
	}
	return known[words(string(text))], nil
}

var (
	word = regexp.MustCompile(`[a-z0-9]+`)

	// The text before these is the license's title and the copyright owner.
	opening = regexp.MustCompile(`^(?:[a-z0-9]+ ){0,60}?(permission is hereby granted free|` +
		`redistribution and use in source)`)

	// The blanks that users of a license fill in.
	blanks = []struct {
		filled *regexp.Regexp
		empty  string
	}{
		{regexp.MustCompile(`neither the name of [a-z0-9 ]{1,60}? nor the names of its`),
			"neither the name of nor the names of its"},
		{regexp.MustCompile(`copyright (owner|holder) or contributors`), "copyright holder or contributors"},
		{regexp.MustCompile(`copyright [a-z0-9 ]{1,80}? licensed under the apache`),
			"copyright licensed under the apache"},
	}
)

// words returns a hash of the text of a license. Line breaks, list marks and the copyright owner do not
// change it.
func words(text string) string {
	var all []string
	for _, w := range word.FindAllString(strings.ToLower(text), -1) {
		if len(w) > 1 { // the number of an item
			all = append(all, w)
		}
	}
	plain := opening.ReplaceAllString(strings.Join(all, " "), "$1")
	for _, b := range blanks {
		plain = b.filled.ReplaceAllString(plain, b.empty)
	}
	sum := sha256.Sum256([]byte(plain))
	return hex.EncodeToString(sum[:])
}

// choice is how CycloneDX has a license: by its name of SPDX, or as an expression of several.
func choice(spdx string) cdx.LicenseChoice {
	if strings.Contains(spdx, " ") {
		return cdx.LicenseChoice{Expression: spdx}
	}
	return cdx.LicenseChoice{License: &cdx.License{ID: spdx}}
}
