package config

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/afero"

	"github.com/verge-id/verge/cmd/verge/internal/words"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/pemfile"
	"github.com/verge-id/verge/core/problem"
)

// Example is a configuration that explains each setting.
//
//go:embed example.toml
var Example string

// File has the settings of the configuration file, overridden by the environment and by flags. example.toml
// explains each member. An omitted member has its zero value, and plan replaces it. A number or a duration
// whose zero means the default is a pointer, so that plan can recognise an explicit 0 (see given).
type File struct {
	Mode              string   `toml:"mode"`
	BaseURL           string   `toml:"base_url"`
	KV                string   `toml:"kv"`
	Keyring           string   `toml:"keyring"`
	KeyringCommand    []string `toml:"keyring_command"`
	KeyAgent          string   `toml:"key_agent"`
	OperatorTokenFile string   `toml:"operator_token_file"`
	TrustedProxies    []string `toml:"trusted_proxies"`
	ProxyHeader       string   `toml:"proxy_header"`
	LogLevel          string   `toml:"log_level"`
	LogClient         string   `toml:"log_client"`
	SecurityContact   string   `toml:"security_contact"`
	ServiceName       string   `toml:"service_name"`
	HelpURL           string   `toml:"help_url"`
	PrivacyURL        string   `toml:"privacy_url"`
	Attempts          *int     `toml:"attempts"`
	OutcomeLife       *span    `toml:"outcome_life"`
	PasskeyDays       *int     `toml:"passkey_days"`

	Listen struct {
		Public string `toml:"public"`
		Admin  string `toml:"admin"`
		Ops    string `toml:"ops"`
	} `toml:"listen"`

	Console struct {
		Listener string `toml:"listener"`
	} `toml:"console"`

	OIDCProvider struct {
		PrivateKeyFiles []string `toml:"private_key_files"`
	} `toml:"oidc_provider"`

	Report struct {
		PrivateKeyFile string `toml:"private_key_file"`
	} `toml:"report"`

	TLS struct {
		Cert string `toml:"cert"`
		Key  string `toml:"key"`

		ACME          bool   `toml:"acme"`
		ACMEEmail     string `toml:"acme_email"`
		ACMEStorage   string `toml:"acme_storage"`
		ACMEDirectory string `toml:"acme_directory"`
		ACMECA        string `toml:"acme_ca"`
		ACMEHTTP      string `toml:"acme_http"`
	} `toml:"tls"`

	Engine struct {
		Name          string `toml:"name"`
		Module        string `toml:"module"`
		ModuleSHA256  string `toml:"module_sha256"`
		ModuleKey     string `toml:"module_key"`
		MinVersion    int64  `toml:"module_min_version"`
		ModuleCache   string `toml:"module_cache"`
		Interruptible bool   `toml:"interruptible"`
	} `toml:"engine"`

	Store struct {
		PasswordFile string `toml:"password_file"`
		CA           string `toml:"ca"`
		Cert         string `toml:"cert"`
		Key          string `toml:"key"`
		Prefix       string `toml:"prefix"`
		Replicas     int    `toml:"replicas"`
		Wait         *span  `toml:"wait"`
		Partitions   *int   `toml:"partitions"`
		Budget       *span  `toml:"budget"`

		TrustedNetwork bool `toml:"trusted_network"`
	} `toml:"store"`

	Limits struct {
		PublicPerIP        *int `toml:"public_per_ip"`
		PublicPerKey       *int `toml:"public_per_key"`
		PublicPerNetwork   *int `toml:"public_per_network"`
		StartsPerPublisher *int `toml:"starts_per_publisher"`
		SecretPerIP        *int `toml:"secret_per_ip"`
		ReconcilePerKey    *int `toml:"reconcile_per_key"`

		PreflightsPerIP      *int `toml:"preflights_per_ip"`
		PagesPerIP           *int `toml:"pages_per_ip"`
		PendingPerIP         *int `toml:"boxes_per_ip"`
		PendingPerHandle     *int `toml:"boxes_per_handle"`
		FailedOperatorsPerIP *int `toml:"failed_operators_per_ip"`

		Connections      *int `toml:"connections"`
		ConnectionsPerIP *int `toml:"connections_per_ip"`
	} `toml:"limits"`

	Webhooks struct {
		Retries        []span `toml:"retries"`
		JitterPercent  *int   `toml:"jitter_percent"`
		ConnectTimeout *span  `toml:"connect_timeout"`
		Timeout        *span  `toml:"timeout"`
		MaxResponse    *int   `toml:"max_answer"`
	} `toml:"webhooks"`

	Traces struct {
		Endpoint string   `toml:"endpoint"`
		Sample   *float64 `toml:"sample"`
	} `toml:"traces"`

	Drain struct {
		Delay   span  `toml:"delay"`
		Timeout *span `toml:"timeout"`
	} `toml:"drain"`

	// Methods are tables whose members depend on the kind (planmethod.go).
	Methods      []map[string]any    `toml:"methods"`
	Publishers   []publisherConfig   `toml:"publishers"`
	Integrations []integrationConfig `toml:"integrations"`
}

// publisherConfig is a publisher of the file.
type publisherConfig struct {
	integration.SitePublisher

	LogoFile string `toml:"logo_file"`
}

// integrationConfig is an integration of the file. The secret itself is never in the file, because files are
// put under version control.
type integrationConfig struct {
	integration.SiteIntegration

	SecretFile string `toml:"secret_file"`
	SecretEnv  string `toml:"secret_env"`

	MethodSettings map[string]map[string]any `toml:"method_settings"`

	written map[string]any // its table, in which a 0 differs from an omitted number
}

// span is a duration of the file. It is a text, so that a number without a unit is rejected.
type span string

// problems collects all errors, so that users can correct them together.
type problems []string

func (ps *problems) add(format string, args ...any) {
	*ps = append(*ps, fmt.Sprintf(format, args...))
}

// addLines adds each line of err as a separate problem that begins with about. err may be nil.
func (ps *problems) addLines(about string, err error) {
	if err == nil {
		return
	}
	if about != "" {
		about += ": "
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		ps.add("%s%s", about, line)
	}
}

// take adds the problems that the owner of some settings found in them. keys maps the owner's names to the
// names in the file. Problems of a method's setting whose file could not be read are omitted, because the
// owner did not get its value.
func (ps *problems) take(wrong problem.List, keys map[string]string) {
	before := slices.Clone(*ps)
	for _, p := range wrong.Rename(keys) {
		unread := strings.HasPrefix(p.Member, "methods.") &&
			slices.ContainsFunc(before, func(text string) bool {
				return strings.HasPrefix(text, p.Member+": ") || strings.HasPrefix(text, p.Member+" must be ")
			})
		if !unread {
			ps.add("%s", p.Error())
		}
	}
}

// err returns one error with all problems of the configuration from source, or nil.
func (ps problems) err(source string) error {
	if len(ps) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s\n  - %s", source, words.HowMany(len(ps), "problem"), strings.Join(ps, "\n  - "))
}

// readConfig reads the file into c. Without a path, c stays unchanged.
func readConfig(fsys afero.Fs, path string, c *File, ps *problems) error {
	if path == "" {
		return nil
	}
	b, err := readTOML(fsys, path, c, "; `verge serve --example` shows all", ps)
	if err != nil || len(c.Integrations) == 0 {
		return err
	}
	var written struct {
		Integrations []map[string]any `toml:"integrations"`
	}
	if err := toml.Unmarshal(b, &written); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for n := range min(len(c.Integrations), len(written.Integrations)) {
		c.Integrations[n].written = written.Integrations[n]
	}
	return nil
}

// readTOML reads a file into a configuration or a part of one. An unknown key is a problem like others and
// does not hide them; others is the hint where the known keys are listed. A file that is not TOML, or that
// has a value of a wrong type, is an error, because other problems may only follow from it. It returns the
// text of the file.
func readTOML(fsys afero.Fs, path string, into any, others string, ps *problems) (
	[]byte, error) {
	b, err := afero.ReadFile(fsys, path)
	if err != nil {
		return nil, err
	}
	if b, err = pemfile.Text(b); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	err = toml.NewDecoder(bytes.NewReader(b)).DisallowUnknownFields().Decode(into)
	var unknown *toml.StrictMissingError
	var malformed *toml.DecodeError
	switch {
	case errors.As(err, &unknown):
		for _, e := range unknown.Errors {
			line, _ := e.Position()
			ps.add("line %d: unknown setting %q%s", line, strings.Join(e.Key(), "."),
				cmp.Or(meant(reflect.TypeOf(into), e.Key()), others))
		}
		return b, nil
	case errors.As(err, &malformed):
		line, column := malformed.Position()
		why := notation(strings.TrimPrefix(malformed.Error(), "toml: "), b, line, column)
		if want := wanted(malformed.Key()); want != "" && toml.Unmarshal(b, new(map[string]any)) == nil {
			why = strings.Join(malformed.Key(), ".") + " must be " + want
		}
		return nil, fmt.Errorf("%s: line %d, column %d: %s", path, line, column, why)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var tables map[string]any
	if err := toml.Unmarshal(b, &tables); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	ps.addTwice(reflect.TypeOf(into), tables, "")
	return b, nil
}

// addTwice adds the settings that a table has twice, in different case: the library ignores the case, and the
// last one would silently win. In maps, such as the settings of methods, the case matters.
func (ps *problems) addTwice(of reflect.Type, v any, about string) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return
	}
	switch v := v.(type) {
	case []any:
		for _, each := range v {
			ps.addTwice(of, each, about)
		}
	case map[string]any:
		names := slices.Sorted(maps.Keys(v))
		for n, name := range names {
			for _, other := range names[n+1:] {
				if strings.EqualFold(name, other) {
					ps.add("%s%s and %[1]s%[3]s are the same setting; keep one of them", about, name, other)
				}
			}
			if field, ok := fieldOf(of, name); ok {
				ps.addTwice(field.Type, v[name], about+name+".")
			}
		}
	}
}

// wanted describes the required value of a setting. It returns "" if there is no such setting.
func wanted(key toml.Key) string {
	t := reflect.TypeFor[File]()
	for _, name := range key {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() == reflect.Map {
			t = t.Elem()
			continue
		}
		if t.Kind() != reflect.Struct {
			return ""
		}
		field, ok := fieldOf(t, name)
		if !ok {
			return ""
		}
		t = field.Type
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Slice {
		return valueOf(t)
	}
	if k := t.Elem().Kind(); k == reflect.Struct || k == reflect.Map {
		return fmt.Sprintf("tables, each under a line [[%s]]", strings.Join(key, "."))
	}
	return "a list; each value is " + valueOf(t.Elem())
}

// fieldOf returns the field of a struct that has the setting.
func fieldOf(t reflect.Type, name string) (reflect.StructField, bool) {
	return t.FieldByNameFunc(func(n string) bool {
		f, _ := t.FieldByName(n)
		return strings.EqualFold(f.Tag.Get("toml"), name)
	})
}

// value returns the value of a setting of the file, such as limits.public_per_ip.
func (c *File) value(key string) any {
	v := reflect.ValueOf(c).Elem()
	for name := range strings.SplitSeq(key, ".") {
		field, _ := fieldOf(v.Type(), name)
		v = v.FieldByIndex(field.Index)
	}
	return v.Interface()
}

// NeedRestart returns the names of the settings that differ and that a running server does not read again.
// Their values may be secrets.
func NeedRestart(running, next File) (names []string) {
	next.Publishers, next.Integrations = running.Publishers, running.Integrations
	next.Engine.Module, next.Engine.ModuleSHA256 = running.Engine.Module, running.Engine.ModuleSHA256
	next.Engine.ModuleKey, next.Engine.MinVersion = running.Engine.ModuleKey, running.Engine.MinVersion
	return differ(reflect.ValueOf(running), reflect.ValueOf(next), "")
}

// differ returns the names of the settings that differ in two tables.
func differ(a, b reflect.Value, about string) (names []string) {
	for n := range a.NumField() {
		switch name := about + a.Type().Field(n).Tag.Get("toml"); {
		case a.Field(n).Kind() == reflect.Struct:
			names = append(names, differ(a.Field(n), b.Field(n), name+".")...)
		case !reflect.DeepEqual(a.Field(n).Interface(), b.Field(n).Interface()):
			names = append(names, name)
		}
	}
	return names
}

// valueOf describes a type of value.
func valueOf(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[span]():
		return `a duration in quotes, such as "90d", "12h" or "5s"`
	case t.Kind() == reflect.String:
		return "a text in quotes"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Float64:
		return "a number"
	case t.Kind() == reflect.Struct, t.Kind() == reflect.Map:
		return "a table"
	}
	return "a whole number"
}
