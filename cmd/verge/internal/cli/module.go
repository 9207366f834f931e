package cli

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"strings"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/cmd/verge/internal/modules"
	"github.com/verge-id/verge/cmd/verge/internal/words"
)

// moduleCommands are the commands of `verge module`.
type moduleCommands struct {
	Show     moduleShowCmd     `cmd:"" does:"module.read" group:"operate" help:"Show a server's engine and module, and the last rejected module."`
	Activate moduleActivateCmd `cmd:"" does:"module.activate" group:"operate" help:"Replace the module of a running server without losing requests."`
	Digest   moduleDigestCmd   `cmd:"" group:"files" help:"Print the SHA-256 of a module, or of the built-in one."`
	Keygen   moduleKeygenCmd   `cmd:"" group:"files" help:"Create a key that signs modules."`
	Sign     moduleSignCmd     `cmd:"" group:"files" help:"Sign a module."`
	Verify   moduleVerifyCmd   `cmd:"" group:"files" help:"Check a module against a key or a SHA-256."`
}

type moduleKeygenCmd struct {
	File string `arg:"" help:"File to create for the private key. It must not exist yet."`
}

// Help is shown by `verge module keygen --help`.
func (moduleKeygenCmd) Help() string {
	return `The command prints the public key. If you pin it with module_key, the server runs
only modules that this key has signed. Keep the private key away from servers:
anyone who has it decides which code they run.

Both are plain Ed25519 keys. The file is PKCS #8 in PEM, like the output of "openssl
genpkey -algorithm ed25519". The command prints the 32 bytes of the public key in
base64.

Example:

    verge module keygen module-key.pem`
}

func (c *moduleKeygenCmd) Run(p *program) error {
	if err := p.checkNew(c.File); err != nil {
		return err
	}
	public, private, err := ed25519.GenerateKey(p.Random)
	if err != nil {
		return err
	}
	b, err := modules.MarshalPrivateKey(private)
	if err != nil {
		return err
	}
	if err := config.WritePrivate(p.FS, c.File, b); err != nil {
		return err
	}
	// Print only the key to stdout, so that a script can use it.
	fmt.Fprintln(p.stdout, modules.FormatPublicKey(public))
	fmt.Fprintf(p.stderr, "Wrote the private key to %s (mode 0600). The public one, above, is "+
		"for module_key.\n",
		c.File)
	return nil
}

type moduleSignCmd struct {
	Module  string `arg:"" help:"The module."`
	Key     string `required:"" type:"path" placeholder:"FILE" help:"Private key, as \"verge module keygen\" creates it."`
	Version int64  `required:"" placeholder:"N" help:"A whole number, larger than in all earlier signatures."`
}

// Help is shown by `verge module sign --help`.
func (moduleSignCmd) Help() string {
	return `Writes the signature to FILE.sig next to the module, where a server and "verge
module activate" look for it.

A server rejects a version below module_min_version. "verge module activate" also
rejects a version below the active one, so that an attacker cannot reinstall an old
module with a known vulnerability. A date is a good version: 20261120.

The signature is Ed25519 over three lines, each with a line feed: "verge module,
format 2", "sha256 " with the module's SHA-256 in hex, and "version " with the
number. FILE.sig is one line: "verge-module-2", the number, and the 64 bytes in
base64. A signature of an earlier release is only the base64. It counts as version
0, so it is valid only if module_min_version is not set.

Example:

    verge module sign verge.wasm --key module-key.pem --version 20261120`
}

func (c *moduleSignCmd) Run(p *program) error {
	if c.Version < 1 || c.Version > modules.MaxVersion {
		return usagef("--version: %d is not from 1 to %d", c.Version, int64(modules.MaxVersion))
	}
	b, err := config.ReadPrivate(p.FS, c.Key)
	if err != nil {
		return usagef("--key: %w", err)
	}
	key, err := modules.ParsePrivateKey(b)
	if err != nil {
		return usagef("--key: %s: %w", c.Key, err)
	}
	m, err := modules.ReadUnsigned(p.FS, c.Module) // an existing signature is replaced
	if err != nil {
		return err
	}
	text := modules.Sign(key, m.Digest, c.Version).String()
	if err := afero.WriteFile(p.FS, modules.SignatureFile(c.Module), []byte(text+"\n"), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "Wrote %s: SHA-256 %s, version %d, signed by %s.\n",
		modules.SignatureFile(c.Module), m.Digest, c.Version,
		modules.FormatPublicKey(key.Public().(ed25519.PublicKey)))
	return nil
}

type moduleVerifyCmd struct {
	Module       string `arg:"" help:"The module. Its signature is next to it in FILE.sig."`
	ModuleKey    string `placeholder:"BASE64" env:"VERGE_MODULE_KEY" help:"Public key of the required signature."`
	ModuleSHA256 string `name:"module-sha256" placeholder:"HEX" env:"VERGE_MODULE_SHA256" help:"Required SHA-256."`

	ModuleMinVersion int64 `placeholder:"N" env:"VERGE_MODULE_MIN_VERSION" help:"Minimum version of the signature."`
}

// Help is shown by `verge module verify --help`.
func (moduleVerifyCmd) Help() string {
	return `Reports whether a server with the same pins would accept the module.

Example:

    verge module verify verge.wasm --module-key 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=`
}

func (c *moduleVerifyCmd) Run(p *program) error {
	if c.ModuleKey == "" && c.ModuleSHA256 == "" {
		return usagef("nothing to check: give --module-key, --module-sha256, or both")
	}
	t, err := config.ReadTrust("verge module verify", c.ModuleSHA256, c.ModuleKey, c.ModuleMinVersion)
	if err != nil {
		return usageError{err}
	}
	m, err := modules.Read(p.FS, c.Module)
	if err != nil {
		return err
	}
	version, err := t.Check(m)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Module, err)
	}
	if t.Key == nil {
		fmt.Fprintf(p.stdout, "%s is valid: SHA-256 %s.\n", c.Module, m.Digest)
		return nil
	}
	fmt.Fprintf(p.stdout, "%s is valid: SHA-256 %s, %s.\n", c.Module, m.Digest, modules.VersionText(version))
	return nil
}

type moduleDigestCmd struct {
	Module string `arg:"" optional:"" help:"The module. Default: the built-in one."`
	JSON   bool   `help:"Print JSON."`
}

func (c *moduleDigestCmd) Run(p *program) error {
	m, err := builtInModule()
	if c.Module != "" {
		m, err = modules.Read(p.FS, c.Module)
	}
	if err != nil {
		return err
	}
	var version int64 // from the signature, which is not checked here
	if m.Signature != nil {
		version = m.Signature.Version
	}
	if c.JSON {
		return printJSON(p, struct {
			SHA256 string `json:"sha256"`
			Bytes  int    `json:"bytes"`
			Signed bool   `json:"signed"` // who signed it is not checked here
			Source string `json:"source"`

			Version int64 `json:"version,omitempty"`
		}{m.Digest, len(m.WASM), m.Signature != nil, m.Source, version})
	}
	says := ""
	if m.Signature != nil {
		says = "  (unchecked signature: " + modules.VersionText(version) + ")"
	}
	fmt.Fprintf(p.stdout, "%s  %s%s\n", m.Digest, m.Source, says)
	return nil
}

type moduleShowCmd struct {
	asking
}

func (c *moduleShowCmd) Run(ctx context.Context, p *program) error {
	client, err := c.client(p)
	if err != nil {
		return err
	}
	s, err := client.Module(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(p, s)
	}
	fmt.Fprintf(p.stdout, "engine    %s\n", s.Engine)
	if a := s.Active; a != nil {
		fmt.Fprintf(p.stdout, "module    %s\nversion   %s\nsource    %s\nsince     %s\n",
			a.Digest, strings.TrimPrefix(modules.VersionText(a.Version), "version "), a.Source,
			words.When(a.Since))
	}
	if r := s.Rejected; r != nil {
		fmt.Fprintf(p.stdout, "rejected  %s, %s: %s\n", words.When(r.At), r.Source, r.Reason)
	}
	return nil
}

type moduleActivateCmd struct {
	Module string `arg:"" help:"The module. A signature next to it, FILE.sig, is also sent."`
	asking
}

// Help is shown by `verge module activate --help`.
func (moduleActivateCmd) Help() string {
	return `The server compiles and tests the module. New requests then use the new module;
active requests finish in the old one. The server rejects a module that it does not
trust, that fails a test, or whose signature has a lower version than the active
module's. The active module then stays unchanged. In all modes except dev, a server
without a pin trusts no module. If a guest of the new module fails within half a
minute, the server restores the previous module automatically, and "verge module
show" reports it.

The change lasts until the process ends. After a restart or a SIGHUP, the configured
module runs: install the new module there too, and on every other instance.

Example:

    verge module activate verge.wasm`
}

func (c *moduleActivateCmd) Run(ctx context.Context, p *program) error {
	client, err := c.client(p)
	if err != nil {
		return err
	}
	m, err := modules.Read(p.FS, c.Module)
	if err != nil {
		return err
	}
	signature := ""
	if m.Signature != nil {
		signature = m.Signature.String()
	}
	done, err := client.ActivateModule(ctx, m.WASM, signature)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(p, done)
	}
	if !done.Changed {
		fmt.Fprintf(p.stdout, "%s is already active since %s.\n", done.Digest, words.When(done.Since))
	} else {
		fmt.Fprintf(p.stdout, "%s is active.\n", done.Digest)
	}
	fmt.Fprintln(p.stdout, "A restart or SIGHUP runs the configured module: install this one there, too.")
	return nil
}
