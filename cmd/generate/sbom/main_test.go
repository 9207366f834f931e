package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/verge-id/verge/testharness/long"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/verge-id/verge/testharness/testenv"
)

// TestList_Binary builds the binary of this source and holds its list against what the go command says.
func TestList_Binary(t *testing.T) {
	long.Skip(t, "TestList_Binary")
	testenv.Source(t)
	dir := t.TempDir()
	binary := filepath.Join(dir, "verge")
	goCommand(t, nil, "build", "-o", binary, "../../verge")
	var said bytes.Buffer
	texts := [2][]byte{}
	for n, name := range []string{"one.json", "two.json"} {
		if err := run([]string{binary, filepath.Join(dir, name)}, &said); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		texts[n] = text
	}
	if !bytes.Equal(texts[0], texts[1]) {
		t.Error("two lists of one binary differ")
	}
	if said.Len() > 0 {
		t.Errorf("the list lacks licenses; read them, and add them to the table in license.go:\n%s", &said)
	}
	valid(t, texts[0])

	bom := decoded(t, texts[0])
	listed := map[string]cdx.Component{bom.Metadata.Component.Name: *bom.Metadata.Component}
	refs := []string{}
	for _, c := range *bom.Components {
		if _, twice := listed[c.Name]; twice {
			t.Errorf("%s is listed twice", c.Name)
		}
		listed[c.Name] = c
		refs = append(refs, c.BOMRef)
	}
	d := *bom.Dependencies
	if len(d) != 1 || d[0].Ref != bom.Metadata.Component.BOMRef || !slices.Equal(*d[0].Dependencies, refs) {
		t.Errorf("the product has other parts than are listed: %v", d)
	}
	named := 1 // the standard library
	for line := range strings.Lines(goCommand(t, nil, "version", "-m", binary)) {
		field := strings.Fields(line)
		if len(field) < 3 || field[0] != "mod" && field[0] != "dep" {
			continue
		}
		named++
		c, purl := listed[field[1]], "pkg:golang/"+field[1]
		if field[2] != "(devel)" {
			purl += "@" + strings.ReplaceAll(field[2], "+", "%2B")
		}
		if c.Version != field[2] || c.PackageURL != purl || c.BOMRef != purl || c.Licenses == nil {
			t.Errorf("%s is listed as %+v, want %s with a license", strings.TrimSpace(line), c, purl)
		}
		if sum := field[3:]; len(sum) == 1 && (c.Hashes != nil || c.Properties == nil ||
			!slices.Equal(*c.Properties, []cdx.Property{{Name: "go:sum", Value: sum[0]}})) {
			t.Errorf("%s has the sums %v and the hashes %v", field[1], c.Properties, c.Hashes)
		}
	}
	if len(listed) != named || named < 20 {
		t.Errorf("%d are listed, and the binary has %d", len(listed), named)
	}
	version := strings.TrimPrefix(strings.TrimSpace(goCommand(t, nil, "env", "GOVERSION")), "go")
	if c := listed["std"]; c.PackageURL != "pkg:golang/std@"+version || c.Licenses == nil {
		t.Errorf("the standard library is listed as %+v", c)
	}
	everyRowIsOfUse(t, listed)
	theModuleIsListed(t, listed)
}

// everyRowIsOfUse compares the table of licenses with the list, so that each row can be checked.
func everyRowIsOfUse(t *testing.T, listed map[string]cdx.Component) {
	t.Helper()
	used := map[string]bool{}
	for _, c := range listed {
		if c.Licenses == nil { // an error already
			continue
		}
		for _, l := range *c.Licenses {
			if l.License != nil {
				used[l.License.ID] = true
			}
			used[l.Expression] = true
		}
	}
	for _, spdx := range known {
		if !used[spdx] {
			t.Errorf("no module in the binary has the license %s; take it out of the table", spdx)
		}
	}
}

// theModuleIsListed: a released binary contains the core's module, whose build info cannot be read there.
func theModuleIsListed(t *testing.T, listed map[string]cdx.Component) {
	t.Helper()
	guest := goCommand(t, []string{"GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0"}, "list", "-deps",
		"-f", "{{with .Module}}{{.Path}} {{.Version}}{{end}}", "../../../wasm/guest")
	for line := range strings.Lines(guest) {
		path, version, _ := strings.Cut(strings.TrimSpace(line), " ")
		if c, ok := listed[path]; path != "" && (!ok || version != "" && c.Version != version) {
			t.Errorf("the module for WebAssembly has %s %s, which is not in the list", path, version)
		}
	}
	if !strings.Contains(guest, "golang-lru") {
		t.Errorf("what the module for WebAssembly links is not known: %s", guest)
	}
}

// goCommand returns the output of the go command.
func goCommand(t *testing.T, env []string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	var said bytes.Buffer
	cmd.Env, cmd.Stderr = append(os.Environ(), env...), &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %v: %v\n%s", args, err, &said)
	}
	return string(out)
}

func decoded(t *testing.T, text []byte) *cdx.BOM {
	t.Helper()
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(text), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	return &bom
}

// valid holds a list against the schema of CycloneDX 1.6, which is among the files of the library.
func valid(t *testing.T, text []byte) {
	t.Helper()
	library := strings.TrimSpace(goCommand(t, nil, "list", "-m", "-f", "{{.Dir}}",
		"github.com/CycloneDX/cyclonedx-go"))
	const at = "http://cyclonedx.org/schema/"
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	for name, file := range map[string]string{"bom-1.6.schema.json": "bom-1.6.schema.json",
		"spdx.schema.json": "spdx.schema.json", "jsf-0.82.schema.json": "jsf-0.82.schemax.json"} {
		schema, err := os.ReadFile(filepath.Join(library, "schema", file))
		if err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AddResource(at+name, value); err != nil {
			t.Fatal(err)
		}
	}
	schema, err := c.Compile(at + "bom-1.6.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(value); err != nil {
		t.Error(err)
	}
	value.(map[string]any)["serialNumber"] = "1"
	if schema.Validate(value) == nil {
		t.Error("the schema accepts any serial number, so it is not that of CycloneDX")
	}
}

// TestList_Release has a build info that no test is built with: a version, a commit, a replacement.
func TestList_Release(t *testing.T) {
	release := debug.BuildInfo{
		GoVersion: "go1.26.1 X:nodwarf5",
		Path:      "example.com/Product/cmd/x",
		Main:      debug.Module{Path: "example.com/Product", Version: "v1.2.3+dirty"},
		Deps: []*debug.Module{
			{Path: "example.com/a", Version: "v2.0.0+incompatible", Sum: "h1:a"},
			{Path: "example.com/b", Version: "v1.0.0", Sum: "h1:b",
				Replace: &debug.Module{Path: "example.org/fork", Version: "v1.0.1", Sum: "h1:fork"}},
		},
		Settings: []debug.BuildSetting{{Key: "GOOS", Value: "linux"},
			{Key: "vcs.time", Value: "2026-11-20T22:10:00Z"}},
	}
	document := func(sum byte) []byte {
		linked, err := modulesOf(&release)
		if err != nil {
			t.Fatal(err)
		}
		text, err := encoded(list(&release, linked, map[module]string{
			linked[1]: "MIT", linked[2]: "Apache-2.0 AND BSD-3-Clause"}, [32]byte{sum}))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	text := document(1)
	valid(t, text)
	bom := decoded(t, text)
	var names []string
	for _, c := range *bom.Components {
		names = append(names, c.PackageURL)
	}
	product := bom.Metadata.Component
	if bom.Metadata.Timestamp != "2026-11-20T22:10:00Z" || product.Type != cdx.ComponentTypeApplication ||
		product.PackageURL != "pkg:golang/example.com/product@v1.2.3%2Bdirty" ||
		product.Name != "example.com/Product" || product.Version != "v1.2.3+dirty" ||
		(*product.Hashes)[0].Value != "01"+strings.Repeat("00", 31) || product.Licenses != nil ||
		(*product.Properties)[0] != (cdx.Property{Name: "go:build:GOOS", Value: "linux"}) {
		t.Errorf("the product is listed as %+v at %s", product, bom.Metadata.Timestamp)
	}
	if want := []string{"pkg:golang/example.com/a@v2.0.0%2Bincompatible",
		"pkg:golang/example.org/fork@v1.0.1", "pkg:golang/std@1.26.1"}; !slices.Equal(names, want) {
		t.Errorf("listed are %q, want %q", names, want)
	}
	if a, b := (*bom.Components)[0].Licenses, (*bom.Components)[1].Licenses; (*a)[0].License.ID != "MIT" ||
		(*b)[0].Expression != "Apache-2.0 AND BSD-3-Clause" {
		t.Errorf("the licenses are %+v and %+v", a, b)
	}
	if again := document(1); !bytes.Equal(again, text) {
		t.Error("the same binary gives another list")
	}
	if other := decoded(t, document(2)); other.SerialNumber == bom.SerialNumber {
		t.Error("the lists of two binaries have one serial number")
	}
}

func TestRunRejects(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("no binary"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		args  []string
		wrong string
	}{
		{"no document", []string{text}, "usage: sbom BINARY DOCUMENT"},
		{"no such file", []string{filepath.Join(dir, "none"), text + ".json"}, "no such file"},
		{"no binary", []string{text, text + ".json"}, text},
	} {
		if err := run(c.args, io.Discard); err == nil || !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v, want %q", c.name, err, c.wrong)
		}
	}
	if _, err := os.Stat(text + ".json"); err == nil {
		t.Error("a refusal left a document")
	}
}

// TestList_Rejected: no list is written that would be incomplete or wrong.
func TestList_Rejected(t *testing.T) {
	testenv.Source(t)
	const self = "github.com/verge-id/verge"
	for _, c := range []struct {
		name  string
		info  debug.BuildInfo
		wrong string
	}{
		{"no module", debug.BuildInfo{Path: "command-line-arguments"}, "main module"},
		{"a directory", debug.BuildInfo{Main: debug.Module{Path: self}, Deps: []*debug.Module{
			{Path: "example.com/a", Version: "v1.0.0", Replace: &debug.Module{Path: "../a"}}}},
			"../a from a directory"},
		{"another source", debug.BuildInfo{Path: self + "/core/kv", Main: debug.Module{Path: self},
			Deps: []*debug.Module{{Path: "example.com/a", Version: "v1.0.0"}}}, "example.com/a v1.0.0 is in"},
		{"another Go", debug.BuildInfo{Path: self + "/core/kv", Main: debug.Module{Path: self},
			GoVersion: "go1.2.3"}, "std 1.2.3 is in"},
		{"another project", debug.BuildInfo{Path: "example.com/none",
			Main: debug.Module{Path: "example.com"}}, "go list"},
	} {
		linked, err := modulesOf(&c.info)
		if err == nil {
			_, err = licensesOf(&c.info, linked)
		}
		if err == nil || !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v, want %q", c.name, err, c.wrong)
		}
	}
}

// TestLicense_Unknown changes a text that is known.
func TestLicense_Unknown(t *testing.T) {
	whole, err := os.ReadFile("../../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	text := string(whole)
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"as it is", map[string]string{"LICENSE": text}, "Apache-2.0"},
		{"with other lines", map[string]string{"license.md": strings.Join(strings.Fields(text), "\n")},
			"Apache-2.0"},
		{"with a copyright", map[string]string{"COPYING": strings.Replace(text,
			"[yyyy] [name of copyright owner]", "2014 Somebody", 1)}, "Apache-2.0"},
		{"with one word less", map[string]string{"LICENSE": strings.Replace(text, "worldwide", "", 1)}, ""},
		{"with a condition more", map[string]string{"LICENSE": text + "\nNot for use in ships.\n"}, ""},
		{"with a condition before it", map[string]string{"LICENSE": "Not for use in ships.\n" + text}, ""},
		{"beside another", map[string]string{"LICENSE": text, "LICENSE.txt": "x"}, ""},
		{"nowhere", nil, ""},
	} {
		dir := t.TempDir()
		for name, text := range c.files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := licenseIn(dir); err != nil || got != c.want {
			t.Errorf("%s: %q, %v, want %q", c.name, got, err, c.want)
		}
	}
}
