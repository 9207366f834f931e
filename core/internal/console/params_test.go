package console

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/integration"
)

// readsParam finds the places that read a parameter.
var readsParam = regexp.MustCompile(`(?:(?:form|query)\.(?:Get|Has)|` +
	`v\.(?:must|text|list|number|until))\("([^"]+)"`)

// TestParams: the list has every parameter that the console reads, and no others (contract 22).
func TestParams(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	read := []string{invitationParam, linkParam, noteParam}
	for _, s := range integration.Settings {
		if s.Name != "method_settings" { // Console.fields has them
			read = append(read, s.Name)
		}
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range readsParam.FindAllStringSubmatch(string(code), -1) {
			read = append(read, found[1])
		}
	}
	for _, name := range read {
		if !slices.Contains(params, name) {
			t.Errorf("%q is read, and params does not have it", name)
		}
	}
	for _, name := range params {
		if !slices.Contains(read, name) {
			t.Errorf("params has %q, which nothing reads", name)
		}
	}
}
