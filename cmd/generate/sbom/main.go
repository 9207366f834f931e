// Command sbom writes the components of a Verge binary as a CycloneDX list (JSON, version 1.6): the main
// module, each linked module, and Go's standard library. Run it in the source of the binary, which has the
// licenses.
//
// The list comes from the build info that Go puts into every binary. It has the modules that are linked for
// the binary's platform, without those of tests. The same binary and source give the same bytes: the time is
// the commit's, and the serial number is a hash of the rest.
package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// run lists in said the modules for which the document names no license.
func run(args []string, said io.Writer) error {
	if len(args) != 2 {
		return errors.New("usage: sbom BINARY DOCUMENT, in the source that the binary was built from")
	}
	binary, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	linked, err := modulesOf(info)
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	licenses, err := licensesOf(info, linked)
	if err != nil {
		return err
	}
	for _, m := range linked {
		if licenses[m] == "" {
			fmt.Fprintf(said, "sbom: %s %s: its license is not one that this program knows; "+
				"the list names none\n", m.path, m.version)
		}
	}
	text, err := encoded(list(info, linked, licenses, sha256.Sum256(binary)))
	if err != nil {
		return err
	}
	return os.WriteFile(args[1], text, 0o644)
}

// list returns the document without its serial number.
func list(
	info *debug.BuildInfo, linked []module, licenses map[module]string, sum [sha256.Size]byte,
) *cdx.BOM {
	bom := cdx.NewBOM()
	product := component(linked[0], licenses)
	product.Type = cdx.ComponentTypeApplication
	product.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}
	settings := []cdx.Property{}
	for _, s := range info.Settings {
		settings = append(settings, cdx.Property{Name: "go:build:" + s.Key, Value: s.Value})
	}
	product.Properties = &settings

	parts, refs := []cdx.Component{}, []string{}
	for _, m := range linked[1:] {
		part := component(m, licenses)
		parts, refs = append(parts, part), append(refs, part.BOMRef)
	}
	bom.Metadata = &cdx.Metadata{
		Timestamp: setting(info, "vcs.time"),
		Component: &product,
		Tools: &cdx.ToolsChoice{Components: &[]cdx.Component{{
			Type: cdx.ComponentTypeApplication, Name: "github.com/verge-id/verge/cmd/generate/sbom"}}},
	}
	bom.Components = &parts
	// The build info does not state the dependencies between modules, so the product has all of them. The
	// others have no entry: an empty entry would mean that they have no dependencies.
	bom.Dependencies = &[]cdx.Dependency{{Ref: product.BOMRef, Dependencies: &refs}}
	return bom
}

// component describes one module.
func component(m module, licenses map[module]string) cdx.Component {
	purl := packageURL(m)
	c := cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: purl, Name: m.path, Version: m.version,
		PackageURL: purl}
	if m.sum != "" {
		// Go's h1 is a hash of a list of the module's files, not of a file that anybody has, so it cannot
		// stand among the hashes. As a property it is in the form of go.sum and of Go's checksum database.
		c.Properties = &[]cdx.Property{{Name: "go:sum", Value: m.sum}}
	}
	if text := licenses[m]; text != "" {
		c.Licenses = &cdx.Licenses{choice(text)}
	}
	return c
}

// encoded returns the document as JSON. Its serial number follows from its content.
func encoded(bom *cdx.BOM) ([]byte, error) {
	var text bytes.Buffer
	write := func() error {
		text.Reset()
		return cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).SetPretty(true).
			EncodeVersion(bom, cdx.SpecVersion1_6)
	}
	if err := write(); err != nil {
		return nil, err
	}
	bom.SerialNumber = uuid.NewHash(sha256.New(), uuid.Nil, text.Bytes(), 8).URN()
	err := write()
	return slices.Clip(text.Bytes()), err
}
