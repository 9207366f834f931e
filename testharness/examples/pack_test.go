package examples

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/verge-id/verge/testharness/testenv"
)

const (
	// expressModules is where .ci/install puts Express, and toolModules TypeScript and openapi-typescript.
	expressModules = "/usr/local/lib/express/node_modules"
	toolModules    = "/usr/local/lib/openapi/node_modules"

	// debianPackages is where Debian puts Flask and Python's tools. debianPython is the interpreter for them.
	debianPackages = "/usr/lib/python3/dist-packages"
	debianPython   = "/usr/bin/python3"
)

// packed is a folder for both SDKs, as publishers install them: from packages.
var packed string

// packs makes and installs each package once.
var packs = struct{ node, python func() error }{sync.OnceValue(packNode), sync.OnceValue(packPython)}

func TestMain(m *testing.M) {
	dir, remove, err := testenv.Scratch("sdk")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	packed = dir
	code := m.Run()
	remove()
	os.Exit(code)
}

// nodeSDK returns the folder of the installed npm package.
func nodeSDK(t *testing.T) string {
	t.Helper()
	testenv.Program(t, "node")
	testenv.Program(t, "npm")
	testenv.File(t, filepath.Join(toolModules, "typescript/package.json"))
	if err := packs.node(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(packed, "installed/node_modules/@verge-id/sdk")
}

// pythonSDK returns the folder that the wheel is installed in.
func pythonSDK(t *testing.T) string {
	t.Helper()
	testenv.File(t, debianPython)
	for _, name := range []string{"pip", "setuptools", "wheel"} {
		testenv.File(t, filepath.Join(debianPackages, name, "__init__.py"))
	}
	if err := packs.python(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(packed, "site")
}

func packNode() error {
	source := filepath.Join(packed, "node")
	err := errors.Join(sources("node", source, "*.json", "strip.mjs", "README.md", "src/*.ts"),
		os.Symlink(toolModules, filepath.Join(source, "node_modules")),
		os.Mkdir(filepath.Join(packed, "installed"), 0o700))
	if err != nil {
		return err
	}
	name, err := output(source, "npm", "pack", "--silent")
	if err != nil {
		return err
	}
	_, err = output(filepath.Join(packed, "installed"), "npm", "install", "--silent", "--offline",
		"--no-audit", "--no-fund", filepath.Join(source, strings.TrimSpace(name)))
	return err
}

func packPython() error {
	source, wheels := filepath.Join(packed, "python"), filepath.Join(packed, "wheels")
	err := sources("python", source, "pyproject.toml", "README.md", "verge_id/*.py", "verge_id/py.typed")
	if err != nil {
		return err
	}
	if _, err := output(source, debianPython, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps",
		"--no-build-isolation", "--wheel-dir", wheels, "."); err != nil {
		return err
	}
	found, err := filepath.Glob(filepath.Join(wheels, "verge_id-*-py3-none-any.whl"))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("%d wheels: %w", len(found), err)
	}
	_, err = output(source, debianPython, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps",
		"--target", filepath.Join(packed, "site"), found[0])
	return err
}

// sources copies files of an SDK, without what a developer may have built next to them.
func sources(sdk, to string, patterns ...string) error {
	from := os.DirFS(filepath.Join("../../edge/sdk", sdk))
	for _, pattern := range patterns {
		names, err := fs.Glob(from, pattern)
		if err != nil || len(names) == 0 {
			return fmt.Errorf("%s of %s: no such file: %w", pattern, sdk, err)
		}
		for _, name := range names {
			text, err := fs.ReadFile(from, name)
			if err == nil {
				err = os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o700)
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(to, name), text, 0o600)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// output runs a command without a network, and returns its output.
func output(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "npm_config_cache="+filepath.Join(packed, "npm"),
		"npm_config_update_notifier=false", "PIP_NO_CACHE_DIR=1", "PIP_DISABLE_PIP_VERSION_CHECK=1",
		"PIP_ROOT_USER_ACTION=ignore")
	var failed bytes.Buffer
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s%s", strings.Join(cmd.Args, " "), err, out, &failed)
	}
	return string(out), err
}
