package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"text/template"

	"github.com/google/uuid"
	"github.com/spf13/afero"

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/keyring"

	_ "embed"
)

type initCmd struct {
	Dir     string `arg:"" optional:"" default:"/etc/verge" type:"path" help:"Directory for the files. It is created if it is missing. Default: ${default}."`
	BaseURL string `name:"base-url" default:"https://verify.example.com" placeholder:"URL" help:"Public address of the service."`
	Data    string `type:"path" placeholder:"DIR" help:"Directory of the store's file. Default: /var/lib/verge for /etc/verge, else DIR/data."`
	Group   string `placeholder:"GROUP" help:"Group of the user that runs the server. The group can read the files, and you own them."`
}

// Help is shown by "verge init --help".
func (initCmd) Help() string {
	return `Creates the files for a first server: a key ring, an operator token, a webhook
secret, and a configuration that uses them and explains what to change. It
overwrites no file: if one of them exists, the command lists it and creates none.

Without --group, only you can read the files, so the server must run as you. With
--group, they have mode 0640. The server accepts this mode if root owns the files,
so run the command as root.

Examples:

    verge init --group verge --base-url https://verify.example.com
    verge init ./first                # to try it as yourself`
}

//go:embed first.toml
var firstConfig string

var firstTemplate = template.Must(template.New("first.toml").
	Funcs(template.FuncMap{"quote": strconv.Quote}).Parse(firstConfig))

// firstFile is a file that init creates.
type firstFile struct {
	name, what string
	content    []byte
}

func (c *initCmd) Run(p *program) error {
	c.BaseURL = strings.TrimSuffix(c.BaseURL, "/")
	for _, wrong := range (core.Config{BaseURL: c.BaseURL, Test: true}).Validate() {
		if wrong.Member == "BaseURL" { // a server would reject it; the other members come later
			return usagef("--base-url: %s", wrong.Text)
		}
	}
	gid := -1
	if c.Group != "" {
		var err error
		if gid, err = groupID(c.Group); err != nil {
			return usagef("--group: %w", err)
		}
		if os.Getuid() != 0 {
			return usagef("--group: run it as root: a server accepts secrets that a group may read " +
				"if root owns them")
		}
	}
	if c.Data == "" {
		c.Data = filepath.Join(c.Dir, "data")
		if c.Dir == "/etc/verge" {
			c.Data = "/var/lib/verge"
		}
	}
	files, err := c.files(p)
	if err != nil {
		return err
	}
	var there []string
	for _, f := range files {
		if _, err := p.FS.Stat(filepath.Join(c.Dir, f.name)); err == nil {
			there = append(there, filepath.Join(c.Dir, f.name))
		}
	}
	if there != nil {
		return fmt.Errorf("%s: already exists, so no file was created or changed; "+
			"choose another directory, or move the existing files", strings.Join(there, ", "))
	}
	fmt.Fprintf(p.stderr, "Creating files in %s, and %s for the store's file.\n", c.Dir, c.Data)
	if err := c.write(p, files, gid); err != nil {
		return err
	}
	c.say(p, files)
	return nil
}

// files returns the files to write.
func (c *initCmd) files(p *program) ([]firstFile, error) {
	ring, err := keyring.Generate(p.Random, p.Now())
	if err != nil {
		return nil, err
	}
	ringJSON, err := ring.Marshal()
	if err != nil {
		return nil, err
	}
	random := make([]byte, 32)
	if _, err := io.ReadFull(p.Random, random); err != nil {
		return nil, err
	}
	secret, err := integration.GenerateSecret(p.Random)
	if err != nil {
		return nil, err
	}
	id, err := uuid.NewRandomFromReader(p.Random)
	if err != nil {
		return nil, err
	}
	var config strings.Builder
	err = firstTemplate.Execute(&config, map[string]string{
		"BaseURL": c.BaseURL, "KV": "bolt:" + filepath.Join(c.Data, "verge.db"),
		"Keyring": filepath.Join(c.Dir, "keyring.json"), "Token": filepath.Join(c.Dir, "operator-token"),
		"Secret": filepath.Join(c.Dir, "webhook-secret"), "Integration": id.String(), "Dir": c.Dir,
	})
	if err != nil {
		return nil, err
	}
	return []firstFile{
		{"keyring.json", "the key ring for all tokens: keep a copy in a safe place", ringJSON},
		{"operator-token", "your credential for the operators' commands and the console",
			fmt.Appendf(nil, "%x\n", random)},
		{"webhook-secret", "signs webhooks: give it to the publisher", []byte(secret + "\n")},
		{"verge.toml", "the configuration, without secrets", []byte(config.String())},
	}, nil
}

// write creates the directories and the files. If it fails, it removes the files that it has created.
func (c *initCmd) write(p *program, files []firstFile, gid int) (err error) {
	var made []string
	defer func() {
		if err == nil {
			return
		}
		for _, name := range made {
			p.FS.Remove(name)
		}
		if errors.Is(err, syscall.EROFS) {
			err = config.WithAdvice(err)
		}
		if errors.Is(err, os.ErrPermission) {
			err = fmt.Errorf(
				"%w: run it as root, or choose your own directory, as in `verge init ./first`", err)
		}
	}()
	if err := makeDir(p.FS, c.Dir, 0o755); err != nil {
		return err
	}
	mode := os.FileMode(0o600)
	if gid >= 0 {
		mode = 0o640
	}
	for _, f := range files {
		name := filepath.Join(c.Dir, f.name)
		if err := config.WritePrivate(p.FS, name, f.content); err != nil {
			return err
		}
		made = append(made, name)
		if gid >= 0 {
			if err := errors.Join(p.FS.Chown(name, os.Getuid(), gid), p.FS.Chmod(name, mode)); err != nil {
				return err
			}
		}
	}
	if _, err := p.FS.Stat(c.Data); err == nil {
		return nil
	}
	// With a group, the server runs as another user, who must be able to write here.
	dataMode := os.FileMode(0o700)
	if gid >= 0 {
		dataMode = 0o770
	}
	if err := makeDir(p.FS, c.Data, dataMode); err != nil {
		return err
	}
	if gid >= 0 {
		return p.FS.Chown(c.Data, os.Getuid(), gid)
	}
	return nil
}

// makeDir creates a directory that does not exist, with this mode. Missing parent directories get mode 0755.
// The umask does not matter, because the server's user must be able to enter all of them.
func makeDir(fsys afero.Fs, dir string, mode os.FileMode) error {
	if _, err := fsys.Stat(dir); err == nil {
		return nil
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := makeDir(fsys, parent, 0o755); err != nil {
			return err
		}
	}
	if err := fsys.Mkdir(dir, mode); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return fsys.Chmod(dir, mode)
}

// say prints the created files and the next steps.
func (c *initCmd) say(p *program, files []firstFile) {
	mode := "mode 0600, for you only"
	if c.Group != "" {
		mode = "mode 0640, for you and the group " + c.Group
	}
	fmt.Fprintf(p.stdout, "Made in %s (%s):\n", c.Dir, mode)
	for _, f := range files {
		fmt.Fprintf(p.stdout, "  %-15s %s\n", f.name, f.what)
	}
	config := filepath.Join(c.Dir, "verge.toml")
	fmt.Fprintf(p.stdout, `The store's file will be in %[3]s.

Next:
  %[1]s serve --config %[2]s --check     # checks the configuration
  %[1]s serve --config %[2]s &           # mode test: the sandbox verifies no user
  export VERGE_ADMIN_URL=http://127.0.0.1:8081 VERGE_OPERATOR_TOKEN_FILE=%[4]s
  %[1]s key create --publisher pub_first       # while it runs; the key is shown once
  %[1]s integration list

Sign in to the console, %[5]s/console, with the operator token.
Then edit %[2]s: its comments explain what production needs.
For systemd, save the unit as /etc/systemd/system/verge.service, with
  ExecStart=%[6]s serve --config %[2]s
`, p.name, config, c.Data, filepath.Join(c.Dir, "operator-token"), strings.TrimSuffix(c.BaseURL, "/"),
		ownPath())
}

// ownPath returns the path of this program.
func ownPath() string {
	if path, err := os.Executable(); err == nil {
		return path
	}
	return "/usr/local/bin/verge"
}

// groupID returns the number of a group that is named or is a number.
func groupID(group string) (int, error) {
	if n, err := strconv.ParseUint(group, 10, 31); err == nil {
		return int(n), nil
	}
	found, err := user.LookupGroup(group)
	if err != nil {
		return 0, fmt.Errorf("group %q does not exist; `useradd --system %s` creates a user and a "+
			"group with that name",
			group, group)
	}
	return strconv.Atoi(found.Gid)
}
