package main

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/spf13/afero"
)

type moduleKeygenCmd struct {
	File string `arg:"" help:"Where to write the private key. It must not exist yet."`
}

// Help is shown by `verge module keygen --help`.
func (moduleKeygenCmd) Help() string {
	return `The public key is printed: pin it with module_key, and a server runs no module
that this key has not signed. Keep the private key away from servers: whoever
has it decides what they run.

Both are plain Ed25519 keys: the file is PKCS #8 in PEM, as "openssl genpkey
-algorithm ed25519" makes it too, and what is printed is the 32 bytes of the
public key in base64.

Example:

    verge module keygen module-key.pem`
}

func (c *moduleKeygenCmd) Run(p *program) error {
	if _, err := p.fs.Stat(c.File); err == nil {
		return fmt.Errorf("%s is there already and is left as it is", c.File)
	}
	public, private, err := ed25519.GenerateKey(p.random)
	if err != nil {
		return err
	}
	b, err := marshalPrivateKey(private)
	if err != nil {
		return err
	}
	if err := writePrivate(p.fs, c.File, b); err != nil {
		return err
	}
	// The key is alone on stdout, so that a script can take it from there.
	fmt.Fprintln(p.stdout, publicKeyText(public))
	fmt.Fprintf(p.stderr, "Wrote the private key to %s (mode 0600). The public one, above, is for module_key.\n", c.File)
	return nil
}

type moduleSignCmd struct {
	Module string `arg:"" help:"The module."`
	Key    string `required:"" type:"path" placeholder:"FILE" help:"Private key, as \"verge module keygen\" makes it."`
}

// Help is shown by `verge module sign --help`.
func (moduleSignCmd) Help() string {
	return `Writes the signature beside the module, as FILE.sig, where a server and
"verge module activate" look for it.

It is Ed25519 over the two lines "verge module, version 1" and "sha256 " with
the module's SHA-256 in hex, each with a line feed; FILE.sig has its 64 bytes
in base64.

Example:

    verge module sign verge.wasm --key module-key.pem`
}

func (c *moduleSignCmd) Run(p *program) error {
	b, err := readPrivate(p.fs, c.Key)
	if err != nil {
		return fmt.Errorf("--key: %w", err)
	}
	key, err := parsePrivateKey(b)
	if err != nil {
		return fmt.Errorf("--key: %s: %w", c.Key, err)
	}
	wasm, err := readAtMost(p.fs, c.Module, maxModule) // a signature that is there is not read: it is replaced
	if err != nil {
		return err
	}
	m, err := newModule(wasm, c.Module)
	if err != nil {
		return err
	}
	signature := ed25519.Sign(key, signedText(m.digest))
	if err := afero.WriteFile(p.fs, signatureFile(c.Module), []byte(signatureText(signature)+"\n"), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "Wrote %s: SHA-256 %s, signed by %s.\n", signatureFile(c.Module), m.digest, publicKeyText(key.Public().(ed25519.PublicKey)))
	return nil
}

type moduleVerifyCmd struct {
	Module       string `arg:"" help:"The module. Its signature is beside it, FILE.sig."`
	ModuleKey    string `placeholder:"BASE64" env:"VERGE_MODULE_KEY" help:"The public key that must have signed it."`
	ModuleSHA256 string `name:"module-sha256" placeholder:"HEX" env:"VERGE_MODULE_SHA256" help:"The SHA-256 that it must have."`
}

// Help is shown by `verge module verify --help`.
func (moduleVerifyCmd) Help() string {
	return `Says what a server would say that has the same pins.

Example:

    verge module verify verge.wasm --module-key 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=`
}

func (c *moduleVerifyCmd) Run(p *program) error {
	if c.ModuleKey == "" && c.ModuleSHA256 == "" {
		return usagef("there is nothing to hold the module to: give --module-key or --module-sha256")
	}
	var ps problems
	t := parseTrust(c.ModuleSHA256, c.ModuleKey, &ps)
	if err := ps.err("verge module verify"); err != nil {
		return err
	}
	m, err := readModule(p.fs, c.Module)
	if err != nil {
		return err
	}
	if err := t.check(m.digest, m.signature); err != nil {
		return fmt.Errorf("%s: %w", c.Module, err)
	}
	fmt.Fprintf(p.stdout, "%s is good: SHA-256 %s.\n", c.Module, m.digest)
	return nil
}

type moduleDigestCmd struct {
	Module string `arg:"" optional:"" help:"The module. Default: the one built into this binary."`
	JSON   bool   `help:"Print JSON."`
}

func (c *moduleDigestCmd) Run(p *program) error {
	m, err := builtInModule()
	if c.Module != "" {
		m, err = readModule(p.fs, c.Module)
	}
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(p.stdout).Encode(struct {
			SHA256 string `json:"sha256"`
			Bytes  int    `json:"bytes"`
			Signed bool   `json:"signed"` // by whom is another matter
			Source string `json:"source"`
		}{m.digest, len(m.wasm), m.signature != nil, m.source})
	}
	fmt.Fprintf(p.stdout, "%s  %s\n", m.digest, m.source)
	return nil
}

type moduleShowCmd struct {
	JSON bool `help:"Print JSON."`
	serverFlags
}

func (c *moduleShowCmd) Run(ctx context.Context, p *program) error {
	client, err := c.client(p)
	if err != nil {
		return err
	}
	var s moduleState
	if err := client.call(ctx, "GET", modulePath, nil, &s); err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(p.stdout).Encode(s)
	}
	fmt.Fprintf(p.stdout, "engine    %s\n", s.Engine)
	if a := s.Active; a != nil {
		fmt.Fprintf(p.stdout, "module    %s\nsource    %s\nsince     %s\n", a.Digest, a.Source, when(a.Since))
	}
	if r := s.Rejected; r != nil {
		fmt.Fprintf(p.stdout, "refused   %s, %s: %s\n", when(r.At), r.Source, r.Reason)
	}
	return nil
}

type moduleActivateCmd struct {
	Module string `arg:"" help:"The module. If a signature is beside it, FILE.sig, it is sent too."`
	JSON   bool   `help:"Print JSON."`
	serverFlags
}

// Help is shown by `verge module activate --help`.
func (moduleActivateCmd) Help() string {
	return `The server compiles and tests the module; then it takes every new request, and
those under way end in the old one. One that the server does not trust or that
fails a test is refused, and nothing changes. If a guest of it fails within half
a minute, the module before takes over again by itself: "verge module show" says.

It holds for this process and until it ends. After a restart, or on SIGHUP, the
configured module runs: put the new one there too, and give it to every other
instance.

Example:

    verge module activate verge.wasm`
}

func (c *moduleActivateCmd) Run(ctx context.Context, p *program) error {
	client, err := c.client(p)
	if err != nil {
		return err
	}
	m, err := readModule(p.fs, c.Module)
	if err != nil {
		return err
	}
	// With Expect, whoever is refused for his token is told before he sends megabytes.
	header := http.Header{"Content-Type": {"application/wasm"}, "Expect": {"100-continue"}}
	if m.signature != nil {
		header.Set(signatureHeader, signatureText(m.signature))
	}
	var done moduleActivated
	if err := client.send(ctx, "POST", modulePath, header, m.wasm, &done); err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(p.stdout).Encode(done)
	}
	if !done.Changed {
		fmt.Fprintf(p.stdout, "%s is active already, since %s.\n", done.Digest, when(done.Since))
	} else {
		fmt.Fprintf(p.stdout, "%s is active.\n", done.Digest)
	}
	fmt.Fprintln(p.stdout, "After a restart or a SIGHUP the configured module runs: put this one there too.")
	return nil
}
