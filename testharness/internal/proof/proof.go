// Package proof finds tests by the names in documents, so that a document that names a test as its proof
// cannot name a missing one.
package proof

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// A name is `TestName` or `TestName/part of a case's name`. The folder of its package may precede it:
// `core/internal/token:TestMAC`.
var name = regexp.MustCompile(`^(?:([a-z0-9/]+):)?(Test\w+)(?:/(.+))?$`)

// Finder finds tests below the root of the repository.
type Finder struct {
	root, home string
	sources    map[string][]string // by folder, read once
}

// In returns a Finder. home is the folder of names without a folder.
func In(root, home string) *Finder { return &Finder{root, home, map[string][]string{}} }

// ErrNoName: a text does not have the form of a test's name.
var ErrNoName = errors.New("proof: not the name of a test")

// Find returns nil if a test has that name, and ErrNoName if the text has another form.
func (f *Finder) Find(text string) error {
	m := name.FindStringSubmatch(text)
	if m == nil {
		return ErrNoName
	}
	folder := m[1]
	if folder == "" {
		folder = f.home
	}
	files, err := f.read(folder)
	if err != nil {
		return err
	}
	// The matrix of credentials prefixes the names of its cases with the endpoint.
	part := strings.TrimPrefix(strings.TrimPrefix(m[3], "validate/"), "reconcile/")
	for _, file := range files {
		_, body, found := strings.Cut(file, "func "+m[2]+"(t *testing.T) {")
		if found && strings.Contains(body, part) {
			return nil
		}
	}
	return fmt.Errorf("there is no test %s", text)
}

func (f *Finder) read(folder string) ([]string, error) {
	if files, read := f.sources[folder]; read {
		return files, nil
	}
	names, err := filepath.Glob(filepath.Join(f.root, folder, "*_test.go"))
	if err != nil {
		return nil, err
	}
	files := make([]string, len(names))
	for i, n := range names {
		b, err := os.ReadFile(n)
		if err != nil {
			return nil, err
		}
		files[i] = string(b)
	}
	f.sources[folder] = files
	return files, nil
}
