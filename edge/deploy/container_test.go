package deploy

import (
	"debug/elf"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/testenv"
)

// TestBuild_Static: an image from scratch has no loader and no library.
func TestBuild_Static(t *testing.T) {
	for path, line := range map[string]string{
		"../../Makefile":                    "export CGO_ENABLED := 0",
		"../../.goreleaser.yaml":            "- CGO_ENABLED=0",
		"../../.ci/reproducible":            "CGO_ENABLED=0",
		"../../edge/deploy/container/build": "dist/verge",
	} {
		if !strings.Contains(read(t, path), line) {
			t.Errorf("%s has no %q", path, line)
		}
	}
}

// TestImage_Runs builds the image and runs it, as the user that it names.
func TestImage_Runs(t *testing.T) {
	long.Skip(t, "TestImage_Runs")
	buildah := testenv.Program(t, "buildah")
	dir := t.TempDir()
	binary := filepath.Join(dir, "verge")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, "./cmd/verge")
	build.Dir, build.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	isStatic(t, binary)
	storage := "[storage]\ndriver = \"vfs\"\nrunroot = \"" + dir + "/run\"\ngraphroot = \"" + dir +
		"/graph\"\n"
	if err := os.WriteFile(filepath.Join(dir, "storage.conf"), []byte(storage), 0o600); err != nil {
		t.Fatal(err)
	}
	in := func(program string, args ...string) string {
		t.Helper()
		cmd := exec.Command(program, args...)
		cmd.Env = append(os.Environ(), "CONTAINERS_STORAGE_CONF="+dir+"/storage.conf",
			"BUILDAH_ISOLATION=chroot")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", program, args, err, out)
		}
		return string(out)
	}
	if out, err := exec.Command("unshare", "-m", "true").CombinedOutput(); err != nil {
		t.Skipf("SKIP: this machine gives no namespaces to build an image in: %v %s", err, out)
	}
	in("container/build", "verge-test", binary)
	var image struct {
		OCIv1 struct {
			Config struct {
				User       string
				Entrypoint []string
			} `json:"config"`
		}
	}
	if err := json.Unmarshal([]byte(in(buildah, "inspect", "--type", "image", "verge-test")),
		&image); err != nil {
		t.Fatal(err)
	}
	if c := image.OCIv1.Config; c.User != "65532:65532" || len(c.Entrypoint) != 1 ||
		c.Entrypoint[0] != "/verge" {
		t.Errorf("the image runs %v as %q", c.Entrypoint, c.User)
	}
	name := strings.TrimSpace(in(buildah, "from", "verge-test"))
	if said := in(buildah, "run", name, "--", "/verge", "version"); !strings.HasPrefix(said, "verge ") {
		t.Errorf("in the image, `verge version` says %q", said)
	}
	// Only the volume can be written to by that user.
	made := in(buildah, "run", name, "--", "/verge", "keyring", "generate", "/var/lib/verge/ring.json")
	if !strings.Contains(made, "ring.json") {
		t.Errorf("in the image, `verge keyring generate` says %q", made)
	}
	outside := exec.Command(buildah, "run", name, "--", "/verge", "keyring", "generate", "/ring.json")
	outside.Env = append(os.Environ(), "CONTAINERS_STORAGE_CONF="+dir+"/storage.conf",
		"BUILDAH_ISOLATION=chroot")
	if out, err := outside.CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "permission denied") {
		t.Errorf("the user of the image writes where it should not: %v %s", err, out)
	}
}

func isStatic(t *testing.T, binary string) {
	t.Helper()
	f, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	if err != nil || len(libraries) > 0 {
		t.Errorf("%s needs %v (%v)", binary, libraries, err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Errorf("%s needs a loader", binary)
		}
	}
}
