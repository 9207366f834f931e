package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/testenv"
)

// TestRelease_Reproducible reads the configuration of releases, and holds it against what
// .ci/reproducible builds.
func TestRelease_Reproducible(t *testing.T) {
	var release struct {
		Builds []struct {
			Main         string
			Env, Flags   []string
			Ldflags      []string
			ModTimestamp string `yaml:"mod_timestamp"`
			Goos, Goarch []string
		}
		Archives []struct {
			Files []struct{ Src, Dst string }
		}
		Sboms []struct {
			Artifacts, Cmd  string
			Args, Documents []string
		}
		Dist string
	}
	if err := yaml.Unmarshal([]byte(read(t, "../../.goreleaser.yaml")), &release); err != nil {
		t.Fatal(err)
	}
	if len(release.Builds) != 1 || len(release.Sboms) != 1 || len(release.Archives) != 1 {
		t.Fatalf("%+v", release)
	}
	b, script := release.Builds[0], read(t, "../../.ci/reproducible")
	if b.Main != "./cmd/verge" || !slices.Equal(b.Env, []string{"CGO_ENABLED=0"}) ||
		!slices.Equal(b.Flags, []string{"-trimpath"}) || !slices.Equal(b.Ldflags, []string{"-s -w"}) ||
		b.ModTimestamp != "{{ .CommitTimestamp }}" {
		t.Errorf("a release is built otherwise than .ci/reproducible does: %+v", b)
	}
	if !strings.Contains(script, `go build -trimpath -ldflags="-s -w" -o`) {
		t.Error(".ci/reproducible builds otherwise than a release")
	}
	for _, system := range []string{"linux", "darwin", "windows"} {
		for _, processor := range []string{"amd64", "arm64"} {
			if !slices.Contains(b.Goos, system) || !slices.Contains(b.Goarch, processor) ||
				!strings.Contains(script, system+"/"+processor) {
				t.Errorf("%s/%s is missing", system, processor)
			}
		}
	}
	// goreleaser requires an empty directory after the first step, in which make fills dist.
	if release.Dist == "" || release.Dist == "dist" ||
		!strings.Contains(read(t, "../../.gitignore"), "/"+release.Dist+"/\n") {
		t.Errorf("a release is built in %q; it needs a separate directory, which git ignores",
			release.Dist)
	}
	if s := release.Sboms[0]; s.Artifacts != "binary" || len(s.Documents) != 1 {
		t.Errorf("a release has not one list for each binary: %+v", s)
	} else {
		makesAList(t, s.Cmd, s.Args)
	}
	has := map[string]bool{}
	for _, f := range release.Archives[0].Files {
		has[f.Src] = true
		if f.Dst == "" && !strings.Contains(f.Src, "*") {
			read(t, "../../"+f.Src) // is there
		}
	}
	for _, src := range []string{"LICENSE", "cmd/verge/OPERATING.md", "edge/deploy/*.{md,yml,json}",
		"edge/deploy/**/*", "dist-man/*", "cmd/verge/internal/cli/completion/*"} {
		if !has[src] {
			t.Errorf("no archive has %s", src)
		}
	}
}

// makesAList runs the release command that lists the modules of a binary, as goreleaser does: below the root
// of the repository, with the two names filled in. The binary is a small one of this module. Package
// cmd/generate/sbom tests the content of the list.
func makesAList(t *testing.T, name string, args []string) {
	t.Helper()
	testenv.Source(t)
	dir := t.TempDir()
	binary, document := filepath.Join(dir, "postlink"), filepath.Join(dir, "postlink.cdx.json")
	build := exec.Command("go", "build", "-o", binary, "../../cmd/generate/postlink")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	filled := slices.Clone(args)
	for n := range filled {
		filled[n] = strings.NewReplacer("$artifact", binary, "$document", document).Replace(filled[n])
	}
	if out, err := exec.Command(name, filled...).CombinedOutput(); err != nil {
		t.Errorf("%s %q: %v: %s", name, filled, err, out)
	} else if !strings.Contains(read(t, document), `"bomFormat": "CycloneDX"`) {
		t.Errorf("%s %q writes no list in CycloneDX: %s", name, filled, read(t, document))
	}
}

// TestRelease_Signature runs the command of a release that signs the checksums, as goreleaser does. minisign
// accepts the signature of that file and key alone, and the trusted comment has the version.
func TestRelease_Signature(t *testing.T) {
	minisign := testenv.Program(t, "minisign")
	var release struct {
		Checksum struct {
			Name string `yaml:"name_template"`
		}
		Signs []struct {
			Artifacts, Cmd, Stdin, Signature string
			Args                             []string
		}
		Source struct{ Enabled bool }
	}
	if err := yaml.Unmarshal([]byte(read(t, "../../.goreleaser.yaml")), &release); err != nil {
		t.Fatal(err)
	}
	if len(release.Signs) != 1 || release.Signs[0].Artifacts != "checksum" ||
		release.Signs[0].Signature != "${artifact}.minisig" || !release.Source.Enabled {
		t.Fatalf("a release has other signatures, or no source: %+v", release)
	}
	long.Skip(t, "TestRelease_Signature")
	sign, dir := release.Signs[0], t.TempDir()
	in := func(stdin, program string, args ...string) error {
		cmd := exec.Command(program, args...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		t.Logf("%s %q: %v\n%s", program, args, err, out)
		return err
	}
	const password = "of a test"
	for _, name := range []string{"release", "other"} {
		err := in(password+"\n"+password+"\n", minisign, "-G", "-p", name+".pub", "-s", name+".key")
		if err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, release.Checksum.Name)
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("00  verge\n")
	fill := strings.NewReplacer(
		"{{ .Env.VERGE_RELEASE_KEY }}",
		"release.key",
		"{{ .Env.VERGE_RELEASE_PASSWORD }}",
		password,
		"{{ .Version }}",
		"9.8.7",
		"${artifact}",
		file,
		"${signature}",
		file+".minisig",
	)
	args := slices.Clone(sign.Args)
	for n := range args {
		args[n] = fill.Replace(args[n])
	}
	if err := in(fill.Replace(sign.Stdin)+"\n", sign.Cmd, args...); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(read(t, file+".minisig"), "trusted comment: verge 9.8.7\n") {
		t.Errorf("the signature does not name the version:\n%s", read(t, file+".minisig"))
	}
	if err := in("", minisign, "-V", "-p", "release.pub", "-m", file); err != nil {
		t.Error("minisign does not accept the signature")
	}
	if in("", minisign, "-V", "-p", "other.pub", "-m", file) == nil {
		t.Error("another key accepts the signature")
	}
	write("01  verge\n")
	if in("", minisign, "-V", "-p", "release.pub", "-m", file) == nil {
		t.Error("the signature is good for other checksums")
	}
}

// TestRelease_TwoBuilds builds what is committed twice, for the machine that it runs on. A release does it
// with empty caches, which takes minutes.
func TestRelease_TwoBuilds(t *testing.T) {
	long.Skip(t, "TestRelease_TwoBuilds")
	if out, err := exec.Command("git", "rev-parse", "HEAD").CombinedOutput(); err != nil {
		t.Skipf("SKIP: there is no repository here to clone: %s", out)
	}
	out, err := exec.Command("../../.ci/reproducible", "--cached",
		runtime.GOOS+"/"+runtime.GOARCH).CombinedOutput()
	if err != nil || !strings.Contains(string(out), runtime.GOOS+"/"+runtime.GOARCH) {
		t.Errorf("%v\n%s", err, out)
	}
}
