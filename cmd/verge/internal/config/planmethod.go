package config

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/kinds"
	"github.com/verge-id/verge/edge/egress"
	"github.com/verge-id/verge/edge/signing"
)

// methodFiles has the settings of a method that the core does not use.
type methodFiles struct {
	name           string
	ca             string             // file of a private CA; "": none
	privateNetwork bool               // its servers may have private addresses
	keys           map[string]keyFile // by their names in Host.Sign
}

// keyFile is a file or an environment variable with a private key.
type keyFile struct {
	path, setting string // setting is its name in the configuration
	read          func() ([]byte, error)
}

// checkMethods reads the methods of a configuration:
//
//	[[methods]]
//	name = "bankid"        # the name in integrations
//	kind = "oidc"
//	level = "L2"           # the highest level that it proves
//	title = "BankID"       # for users; or title.de, title.fr and so on, by language
//	ca = "ca.pem"          # a private CA of its servers
//	private_network = true # its servers have private addresses
//	[methods.oidc]         # the kind's own settings
//	client_secret_file = "secret"
//
// The kinds check their settings (core.Config.Validate).
func (c *File) checkMethods(sys *System, pl *Plan, ps *problems) {
	keys := c.serviceKeys(sys)
	for n, table := range c.Methods {
		t := methodTable{table: table, ps: ps, about: fmt.Sprintf("methods.%d", n+1)}
		name := t.text("name")
		if name != "" {
			t.about = "methods." + name
		}
		m := method.Config{Name: name, Kind: t.text("kind"), Level: t.text("level")}
		m.Title, m.Titles = t.titles("title")
		files := methodFiles{name: name, ca: t.text("ca"), privateNetwork: t.flag("private_network"),
			keys: map[string]keyFile{}}
		at := slices.IndexFunc(kinds.All, func(k method.Kind) bool { return k.Name == m.Kind })
		if at >= 0 {
			t.settings(sys, kinds.All[at], &m, &files)
		}
		for _, key := range slices.Sorted(maps.Keys(t.table)) {
			if _, isTable := t.table[key].(map[string]any); isTable && at < 0 {
				continue // the kind is mistyped, and this may be its table
			}
			ps.add("%s: unknown setting %q; the settings of a kind are in the table "+
				"[methods.%s]",
				t.about, key, m.Kind)
		}
		pl.Core.Methods = append(pl.Core.Methods, m)
		maps.Copy(keys, files.keys)
		pl.allow(sys, files, ps)
		if at >= 0 {
			pl.checkURLs(kinds.All[at], m, t.about, ps)
		}
		pl.methodExpiries(t.about, m)
	}
	if pl.Signer = openKeys(keys, c.agentSocket(sys), ps); pl.Signer != nil {
		c.checkProvider(pl, ps)
		c.checkReport(pl, ps)
		pl.checkKeys(ps)
	}
}

// ReadMethod returns a plan with only one method of a configuration. Its other settings are not used.
func ReadMethod(sys *System, path, name string) (Plan, error) {
	var c File
	var pl Plan
	var ps problems
	if err := readConfig(sys.FS, path, &c, &ps); err != nil {
		return pl, fmt.Errorf("configuration: %w", err)
	}
	c.Methods = slices.DeleteFunc(c.Methods, func(m map[string]any) bool { return m["name"] != name })
	var other File
	c.OIDCProvider, c.Report = other.OIDCProvider, other.Report // the service's keys are not read
	if len(c.Methods) == 0 {
		ps.add("methods: there is no method %q", name)
		return pl, ps.err(path)
	}
	if c.Mode == "dev" {
		pl.Core.Dev, pl.Egress.Dev = true, true
	}
	c.checkAuthorities(sys, &pl)
	c.checkMethods(sys, &pl, &ps)
	_, wrong := pl.Core.Catalog()
	ps.take(wrong, nil)
	return pl, ps.err(path)
}

// agentVariable has the socket of the SSH agent, by convention of OpenSSH.
const agentVariable = "SSH_AUTH_SOCK"

// agentSocket returns the socket of the SSH agent, or "".
func (c *File) agentSocket(sys *System) string {
	socket, _ := sys.Getenv(agentVariable)
	return cmp.Or(c.KeyAgent, socket)
}

// openKeys reads the files of private keys, and finds those of the agent. It returns nil if one cannot be
// read.
func openKeys(keys map[string]keyFile, socket string, ps *problems) *signing.Signer {
	reads := map[string]func() ([]byte, error){}
	read := func(path string) ([]byte, error) { return reads[path]() }
	files := map[string]string{}
	before := len(*ps)
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		k := keys[name]
		if isInline(k.path) {
			ps.add("%s: %v", k.setting, errInline)
			continue
		}
		reads[k.path] = k.read
		if _, err := signing.Open(map[string]string{name: k.path}, read, socket); err != nil {
			ps.add("%s: %v", k.setting, err)
		}
		files[name] = k.path
	}
	if len(*ps) > before {
		return nil
	}
	signer, err := signing.Open(files, read, socket)
	ps.addLines("", err)
	return signer
}

// checkKeys uses each key by the algorithms of its method, so that a key of another type is found now.
func (pl *Plan) checkKeys(ps *problems) {
	catalog, wrong := pl.Core.Catalog()
	if len(wrong) > 0 {
		return // the algorithms depend on unknown values
	}
	type use func(ctx context.Context, key, algorithm string, message []byte) ([]byte, error)
	for _, e := range catalog {
		check := func(verb string, algorithms func(method.Config) map[string]string, by use) {
			if algorithms == nil {
				return
			}
			for _, key := range e.Keys {
				algorithm, ok := algorithms(e.Config)[key]
				if !ok {
					continue
				}
				if _, err := by(context.Background(), e.KeyName(key), algorithm, nil); err != nil {
					ps.add("methods.%s.%s.%s_file: the method %s with %s: %v", e.Name, e.Kind, key, verb,
						algorithm, err)
				}
			}
		}
		before := len(*ps)
		check("signs", e.Of.Signs, pl.Signer.Sign)
		if len(*ps) == before { // a key of another type is one problem
			check("decrypts", e.Of.Decrypts, pl.Signer.Decrypt)
		}
	}
	h := method.Host{Sign: pl.Signer.Sign, Verify: signing.Verify}
	for _, p := range pl.Core.CheckKeys(context.Background(), h) {
		ps.add("%s: %s", p.Member, p.Text)
	}
}

// allow sets the networks and authorities of a method's requests.
func (pl *Plan) allow(sys *System, files methodFiles, ps *problems) {
	allowed := egress.Allowance{PrivateNetwork: files.privateNetwork}
	if files.ca != "" {
		b, err := afero.ReadFile(sys.FS, files.ca)
		if err == nil {
			allowed.RootCAs, err = egress.ParseRoots(b)
		}
		if err != nil {
			ps.add("methods.%s.ca: %v", files.name, err)
		}
	}
	if pl.Egress.Methods == nil {
		pl.Egress.Methods = map[string]egress.Allowance{}
	}
	pl.Egress.Methods[files.name] = allowed
}

// PublicAddress returns the advice for an address that the method's requests must not reach.
func (pl *Plan) PublicAddress(method string) string {
	do := "use its public address"
	if !pl.Egress.Methods[method].PrivateNetwork {
		do += ", or, if it is in your private network, set private_network = true in methods." + method
	}
	return do
}

// checkURLs rejects addresses in the settings of a method that its requests could not reach.
func (pl *Plan) checkURLs(kind method.Kind, m method.Config, about string, ps *problems) {
	var settings map[string]any
	if json.Unmarshal(m.Settings, &settings) != nil {
		return // the kind reports it
	}
	about += "." + kind.Name + "."
	check := func(name string, v any) {
		address, _ := v.(string)
		pl.checkReach(m.Name, address, about+name+": requests cannot reach it", ps)
	}
	for _, name := range kind.URLs {
		of, member, nested := strings.Cut(name, ".")
		if !nested {
			check(name, settings[name])
			continue
		}
		tables, _ := settings[of].([]any)
		for n, v := range tables {
			if table, ok := v.(map[string]any); ok {
				check(fmt.Sprintf("%s.%d.%s", of, n+1, member), table[member])
			}
		}
	}
}

// methodTable removes known members from a table, so that the unknown ones are left.
type methodTable struct {
	table map[string]any
	about string
	ps    *problems
}

func (t *methodTable) text(key string) string {
	return taken[string](t, t.table, t.about, key, "a text in quotes")
}

// titles reads a text, or a table with a text for each language.
func (t *methodTable) titles(key string) (title string, titles map[string]string) {
	table, isTable := t.table[key].(map[string]any)
	if !isTable {
		return taken[string](t, t.table, t.about, key,
			"a text in quotes, or a table with one for each language"), nil
	}
	delete(t.table, key)
	titles = map[string]string{}
	for _, lang := range slices.Sorted(maps.Keys(table)) {
		text, ok := table[lang].(string)
		if !ok {
			t.ps.add("%s: %s.%s must be a text in quotes", t.about, key, lang)
			continue
		}
		titles[lang] = text
	}
	return "", titles
}

func (t *methodTable) flag(key string) bool {
	return taken[bool](t, t.table, t.about, key, "true or false")
}

// taken removes a member from a table, and adds a problem if it has another type. about is the name of the
// table.
func taken[T any](t *methodTable, table map[string]any, about, key, kind string) (v T) {
	given, has := table[key]
	delete(table, key)
	v, ok := given.(T)
	if has && !ok {
		t.ps.add("%s.%s must be %s", about, key, kind)
	}
	return v
}

// settings reads the table of the kind: the secrets and keys, and the rest as JSON.
func (t *methodTable) settings(sys *System, kind method.Kind, m *method.Config, files *methodFiles) {
	table := taken[map[string]any](t, t.table, t.about, kind.Name, "a table")
	about := t.about + "." + kind.Name
	for _, name := range kind.Secrets {
		if secret := t.secret(sys, table, about, name); secret != "" {
			if m.Secrets == nil {
				m.Secrets = map[string]string{}
			}
			m.Secrets[name] = secret
		}
	}
	for _, name := range kind.Keys {
		file := taken[string](t, table, about, name+"_file", "a text in quotes")
		env := taken[string](t, table, about, name+"_env", "a text in quotes")
		switch {
		case file != "" && env != "":
			t.ps.add("%s.%s_file and %s_env are both set; choose one", about, name, name)
		case file != "":
			m.Keys = append(m.Keys, name)
			files.keys[m.KeyName(name)] = keyFile{file, about + "." + name + "_file",
				func() ([]byte, error) { return sys.ReadSecretFile(file) }}
		case env != "":
			m.Keys = append(m.Keys, name)
			files.keys[m.KeyName(name)] = keyFile{"$" + env, about + "." + name + "_env",
				func() ([]byte, error) {
					key, isSet := sys.Getenv(env)
					if !isSet || key == "" {
						return nil, fmt.Errorf("the environment variable %s is not set", env)
					}
					return []byte(key), nil
				}}
		}
	}
	for _, name := range kind.Files {
		if of, member, nested := strings.Cut(name, "."); nested {
			t.nestedFiles(sys, table[of], about+"."+of, member)
			continue
		}
		t.file(sys, table, about, name)
	}
	if len(table) == 0 {
		return
	}
	var err error
	if m.Settings, err = json.Marshal(table); err != nil {
		t.ps.add("%s: %v", about, err)
	}
}

func (t *methodTable) secret(sys *System, table map[string]any, about, name string) string {
	file := taken[string](t, table, about, name+"_file", "a text in quotes")
	env := taken[string](t, table, about, name+"_env", "a text in quotes")
	_, clear := table[name]
	if clear {
		t.ps.add("%s.%s: do not write a secret into this file; set %s_file to a file, or %s_env to a "+
			"variable", about, name, name, name)
		delete(table, name)
	}
	secret, err := ReadSecret(sys, name, file, env)
	if err != nil {
		t.ps.add("%s.%v", about, err)
	}
	if err != nil || clear {
		return "unknown" // so that the kind finds only other problems
	}
	return secret
}

// nestedFiles is like file, for a member of each table of a list. The kind checks all other values.
func (t *methodTable) nestedFiles(sys *System, list any, about, name string) {
	tables, _ := list.([]any)
	for n, v := range tables {
		if table, ok := v.(map[string]any); ok {
			t.file(sys, table, fmt.Sprintf("%s.%d", about, n+1), name)
		}
	}
}

// file replaces the name of a public file in the table with its content: name_file is one file, and name is a
// list of files.
func (t *methodTable) file(sys *System, table map[string]any, about, name string) {
	read := func(setting, path string) (text string, ok bool) {
		b, err := afero.ReadFile(sys.FS, path)
		if err != nil {
			t.ps.add("%s.%s: %v", about, setting, err)
		}
		return inPEM(b), err == nil
	}
	if path := taken[string](t, table, about, name+"_file", "a text in quotes"); path != "" {
		if _, both := table[name]; both {
			t.ps.add("%s: %s and %s_file are both set; choose one", about, name, name)
		}
		table[name], _ = read(name+"_file", path)
		return
	}
	if _, has := table[name]; !has {
		return
	}
	var texts []string
	for _, v := range taken[[]any](t, table, about, name, "a list of files") {
		path, ok := v.(string)
		if !ok {
			t.ps.add("%s.%s: it must be a list of files", about, name)
			return
		}
		if text, ok := read(name, path); ok {
			texts = append(texts, text)
		}
	}
	table[name] = texts
}

// inPEM returns the text of a public file. Certificates in DER, which no JSON text can contain, become PEM.
func inPEM(file []byte) string {
	certificates, err := x509.ParseCertificates(file)
	if err != nil || len(certificates) == 0 {
		return string(file)
	}
	var text []byte
	for _, c := range certificates {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return string(text)
}

// ReadSecret reads a secret from the file or the environment variable of the configuration. Without either,
// it returns "".
func ReadSecret(sys *System, name, file, env string) (string, error) {
	switch {
	case file != "" && env != "":
		return "", fmt.Errorf("%s_file and %s_env are both set; choose one", name, name)
	case env != "":
		value, isSet, err := sys.SecretIn(env)
		if !isSet {
			return "", fmt.Errorf("%s_env: the environment variable %s is not set", name, env)
		}
		if err != nil {
			return "", fmt.Errorf("%s_env: %s: %w", name, env, err)
		}
		return value, nil
	case file != "":
		value, err := sys.secretFrom(file)
		if err != nil {
			return "", fmt.Errorf("%s_file: %w", name, err)
		}
		return value, nil
	}
	return "", nil
}
