// Package workercheck checks the configuration of a Cloudflare Worker, wrangler.jsonc, as the Worker and the
// platform read it. Use [Check]. It needs no connection and no secrets: each error has its line, its place in
// the file and the correction.
package workercheck

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdh"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/problem"
	"github.com/verge-id/verge/edge/egress"
	"github.com/verge-id/verge/edge/workers"
	"github.com/verge-id/verge/wasm/settings"
)

// Problem is an error of wrangler.jsonc.
type Problem struct {
	Line int    // 0: of the file as a whole
	Path string // as in vars.ADMIN_HOST; "": of the file as a whole
	Text string // the error and its fix
}

func (p *Problem) Error() string {
	text := p.Text
	if p.Path != "" {
		text = p.Path + ": " + text
	}
	if p.Line > 0 {
		text = fmt.Sprintf("line %d: %s", p.Line, text)
	}
	return text
}

// Checked is the result of Check.
type Checked struct {
	Problems []*Problem // by line
	Secrets  []string   // names of all secrets that the configuration needs, sorted
}

const (
	maxVariable = 5 * 1024 // bytes of a variable, a limit of the platform
	minCPU      = 10_000   // milliseconds for an alarm with 200 jobs
)

var (
	bindings = map[string]string{"PARTITION": "Partition", "LIMITS": "Limits"}

	siteVariable = regexp.MustCompile(`^VERGE_SITE(_\d+)?$`)
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// Check reads a wrangler.jsonc as the Worker and the platform do, and returns all errors, those of named
// environments included.
func Check(text []byte) Checked {
	c := checker{secrets: map[string]bool{"VERGE_KEYRING": true, "VERGE_OPERATOR_TOKEN": true}}
	var err error
	if c.plain, err = hujson.Standardize(slices.Clone(text)); err == nil { // with the same offsets
		c.lines, err = linesOf(c.plain)
	}
	if err != nil {
		text := strings.TrimPrefix(err.Error(), "hujson: ")
		return Checked{Problems: []*Problem{{Text: "not JSON with comments: " + text}}}
	}
	c.deployments()
	slices.SortStableFunc(c.problems, func(a, b *Problem) int { return cmp.Compare(a.Line, b.Line) })
	return Checked{c.problems, slices.Sorted(maps.Keys(c.secrets))}
}

type checker struct {
	plain    []byte
	lines    map[string]int
	secrets  map[string]bool // of all deployments
	problems []*Problem

	// Of the deployment that is checked.
	file   wrangler
	prefix string          // "env.NAME."; "": the deployment without a named environment
	own    map[string]bool // top-level keys that are below prefix
	needs  map[string]bool // names of secrets
}

// notInherited are the keys that a named environment does not take from the top level.
var notInherited = []string{"vars", "durable_objects", "analytics_engine_datasets"}

// deployments checks the deployment of the top level, and those of the named environments (env). With named
// environments, the top level is a deployment only if it has vars.
func (c *checker) deployments() {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(c.plain, &top); err != nil {
		c.add("", "%v", err)
		return
	}
	var environments map[string]map[string]json.RawMessage
	if raw := top["env"]; raw != nil && json.Unmarshal(raw, &environments) != nil {
		c.add("env", "must be an object of objects")
	}
	if len(environments) == 0 || top["vars"] != nil {
		c.check(top)
	}
	for _, name := range slices.Sorted(maps.Keys(environments)) {
		c.prefix, c.own = "env."+name+".", map[string]bool{}
		all := maps.Clone(top)
		for _, key := range notInherited {
			delete(all, key)
			c.own[key] = true
		}
		for key, value := range environments[name] {
			all[key], c.own[key] = value, true
		}
		c.check(all)
	}
}

// check checks a deployment, from its top-level keys.
func (c *checker) check(keys map[string]json.RawMessage) {
	c.file, c.needs = wrangler{}, map[string]bool{}
	text, err := json.Marshal(keys)
	if err == nil {
		err = json.Unmarshal(text, &c.file)
	}
	if err == nil && keys["vars"] != nil {
		c.file.Vars = nil // Marshal escapes characters such as <, which counts as more bytes
		err = json.Unmarshal(keys["vars"], &c.file.Vars)
	}
	if err != nil {
		c.add("", "%v", err)
		return
	}
	c.deployment()
	c.variables()
	maps.Copy(c.secrets, c.needs)
}

// wrangler has the fields of wrangler.jsonc that matter to Verge.
type wrangler struct {
	Main    string            `json:"main"`
	Date    string            `json:"compatibility_date"`
	Flags   []string          `json:"compatibility_flags"`
	NoMerge bool              `json:"no_bundle"`
	Routes  []json.RawMessage `json:"routes"`
	Route   json.RawMessage   `json:"route"`
	Vars    map[string]json.RawMessage
	Objects struct {
		Bindings []struct {
			Name  string `json:"name"`
			Class string `json:"class_name"`
		} `json:"bindings"`
	} `json:"durable_objects"`
	Migrations []struct {
		New     []string          `json:"new_sqlite_classes"`
		Old     []string          `json:"new_classes"`
		Deleted []string          `json:"deleted_classes"`
		Renamed []json.RawMessage `json:"renamed_classes"`
	} `json:"migrations"`
	Metrics []struct {
		Binding string `json:"binding"`
	} `json:"analytics_engine_datasets"`
	Observability struct {
		Logs struct {
			Invocations *bool `json:"invocation_logs"`
		} `json:"logs"`
	} `json:"observability"`
	Limits struct {
		CPU *int `json:"cpu_ms"`
	} `json:"limits"`
}

// add adds a problem of the value at path of the deployment, or of the nearest value that contains it.
func (c *checker) add(path, format string, args ...any) {
	if key, _, _ := strings.Cut(path, "."); c.own[key] {
		path = c.prefix + path
	}
	line, known := 0, false
	for at := path; at != "" && !known; at, _ = upper(at) {
		line, known = c.lines[at]
	}
	p := Problem{Line: line, Path: path, Text: fmt.Sprintf(format, args...)}
	same := func(other *Problem) bool { return *other == p } // of a value that environments inherit
	if !slices.ContainsFunc(c.problems, same) {
		c.problems = append(c.problems, &p)
	}
}

func upper(path string) (string, bool) {
	i := strings.LastIndexByte(path, '.')
	return path[:max(i, 0)], i >= 0
}

// deployment checks the settings that the platform needs to run the Worker.
func (c *checker) deployment() {
	f := &c.file
	if f.Main != "src/worker.js" {
		c.add("main", `must be "src/worker.js"`)
	}
	if f.Date < workers.Compatibility {
		c.add("compatibility_date", "must be %q or later", workers.Compatibility)
	}
	if !slices.Contains(f.Flags, workers.Flag) {
		c.add("compatibility_flags", "add %q: without it, requests that wait continue after their client "+
			"has left", workers.Flag)
	}
	if !f.NoMerge {
		c.add("no_bundle", "must be true: src is deployed unchanged")
	}
	for _, name := range slices.Sorted(maps.Keys(bindings)) {
		c.binding(name, bindings[name])
		c.migrations(bindings[name])
	}
	for i, m := range f.Migrations {
		if len(m.Renamed) > 0 {
			c.add(fmt.Sprintf("migrations.%d.renamed_classes", i),
				"the Worker's classes cannot be renamed: remove it")
		}
	}
	for i, m := range f.Metrics {
		if m.Binding != "METRICS" {
			c.add(fmt.Sprintf("analytics_engine_datasets.%d.binding", i),
				`must be "METRICS", or the Worker does not write to it`)
		}
	}
	if on := f.Observability.Logs.Invocations; on == nil || *on {
		c.add("observability.logs.invocation_logs",
			"must be false: the platform would log URLs, which have tokens of sessions")
	}
	if ms := f.Limits.CPU; ms != nil && *ms < minCPU {
		c.add("limits.cpu_ms", "must be at least %d, for an alarm that runs 200 jobs", minCPU)
	}
}

func (c *checker) binding(name, class string) {
	bound := false
	for i, b := range c.file.Objects.Bindings {
		if b.Name == name {
			bound = true
			if b.Class != class {
				c.add(fmt.Sprintf("durable_objects.bindings.%d.class_name", i), "must be %q", class)
			}
		}
	}
	if !bound {
		c.add("durable_objects.bindings", `add { "name": %q, "class_name": %q }`, name, class)
	}
}

func (c *checker) migrations(class string) {
	created := false
	for i, m := range c.file.Migrations {
		at := fmt.Sprintf("migrations.%d", i)
		created = created || slices.Contains(m.New, class)
		if slices.Contains(m.Old, class) {
			c.add(at+".new_classes", "%s needs SQLite: name it in new_sqlite_classes", class)
		}
		if slices.Contains(m.Deleted, class) {
			c.add(at+".deleted_classes", "this deletes all data of %s: remove it", class)
		}
	}
	if !created {
		c.add("migrations", `no migration creates %[1]s: add { "tag": "…", "new_sqlite_classes": [%[1]q] }`,
			class)
	}
}

// variables checks vars.
func (c *checker) variables() {
	for _, name := range slices.Sorted(maps.Keys(c.file.Vars)) {
		at, value := "vars."+name, c.file.Vars[name]
		switch {
		case name == "VERGE_KEYRING", name == "VERGE_OPERATOR_TOKEN":
			c.add(at, "a variable is readable in the dashboard and in this file: remove it, "+
				"and put it as a secret: npx wrangler secret put %s", name)
		case name == "LOG_CLIENT":
			c.oneOf(at, value, []string{"off", "cut", "whole"})
		case name == "JURISDICTION":
			c.oneOf(at, value, workers.Jurisdictions())
		case name == "LOCATION_HINT":
			c.oneOf(at, value, workers.LocationHints())
		case name == "ADMIN_HOST", name == "VERGE_CONFIG", siteVariable.MatchString(name):
		default:
			c.add(at, "the Worker has no such variable")
		}
		if n := size(value); n > maxVariable {
			c.add(
				at,
				"it has %d bytes, and a variable holds %d: put more integrations into VERGE_SITE_2 and so on",
				n,
				maxVariable,
			)
		}
	}
	base, methods, dev, ok := c.config()
	hosts := c.hosts()
	c.host("vars.VERGE_CONFIG.base_url", base, hosts, dev)
	if raw, is := c.file.Vars["ADMIN_HOST"]; is {
		var host string
		if json.Unmarshal(raw, &host) != nil || host == "" || strings.ContainsAny(host, "/: ") {
			c.add("vars.ADMIN_HOST", `must be a host name, such as "verify-admin.example.com"`)
		} else {
			c.host("vars.ADMIN_HOST", host, hosts, dev)
		}
	}
	c.site(methods, dev, ok)
	for name := range c.needs {
		if _, is := c.file.Vars[name]; is && !strings.HasPrefix(name, "VERGE_") {
			c.add(
				"vars."+name,
				"it is named as a secret: remove it, and put it as a secret: npx wrangler secret put %s",
				name,
			)
		}
	}
}

// size returns the number of bytes of a variable as wrangler sends it: the text of a string, or JSON without
// white space.
func size(value json.RawMessage) int {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return len(text)
	}
	var b bytes.Buffer
	if json.Compact(&b, value) != nil {
		return len(value)
	}
	return b.Len()
}

func (c *checker) oneOf(at string, value json.RawMessage, list []string) {
	var text string
	if json.Unmarshal(value, &text) != nil || !slices.Contains(list, text) {
		c.add(at, "must be one of %s, or missing", strings.Join(list, ", "))
	}
}

// hosts returns the hosts of the routes. A host that begins with * stands for all that end in its rest.
func (c *checker) hosts() (all []string) {
	routes := map[string]json.RawMessage{}
	for i, raw := range c.file.Routes {
		routes[fmt.Sprintf("routes.%d", i)] = raw
	}
	if c.file.Route != nil {
		routes["route"] = c.file.Route
	}
	for at, raw := range routes {
		var pattern string
		var route struct {
			Pattern string `json:"pattern"`
		}
		if json.Unmarshal(raw, &pattern) != nil {
			if json.Unmarshal(raw, &route) != nil || route.Pattern == "" {
				c.add(at, "it has no pattern")
				continue
			}
			pattern = route.Pattern
		}
		if _, behind, found := strings.Cut(pattern, "://"); found {
			pattern = behind
		}
		host, _, _ := strings.Cut(pattern, "/")
		all = append(all, strings.ToLower(host))
	}
	return all
}

func (c *checker) host(at, host string, hosts []string, dev bool) {
	routed := func(pattern string) bool {
		end, many := strings.CutPrefix(pattern, "*")
		return pattern == strings.ToLower(host) || many && strings.HasSuffix(strings.ToLower(host), end)
	}
	if host != "" && !dev && !slices.ContainsFunc(hosts, routed) {
		c.add(at, "no route has the host %s: add it to routes, or correct one of the two", host)
	}
}

// object reads a variable that is an object, or a text with one.
func (c *checker) object(name string) (object map[string]json.RawMessage) {
	raw, is := c.file.Vars[name]
	if !is {
		return nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = []byte(text)
	}
	if json.Unmarshal(raw, &object) != nil || object == nil {
		c.add("vars."+name, "must be a JSON object")
		return nil
	}
	return object
}

// secret notes the name of a secret.
func (c *checker) secret(at, name string) {
	if !variableName.MatchString(name) {
		c.add(at, "%q is no name of a secret: use letters, digits and _", name)
		return
	}
	c.needs[name] = true
}

// placeholder stands for a secret whose value only the Worker has.
const placeholder = "9f4c1be07d2a8653a1d04ce2"

// placeholderKey returns a public P-256 key that stands for the n-th key, from 1. Keys of different numbers
// are different.
func placeholderKey(n int) string {
	secret := make([]byte, 32)
	binary.BigEndian.PutUint32(secret[28:], uint32(n))
	private, err := ecdh.P256().NewPrivateKey(secret)
	if err != nil {
		return ""
	}
	spki, err := x509.MarshalPKIXPublicKey(private.PublicKey())
	if err != nil {
		return ""
	}
	return base64.StdEncoding.EncodeToString(spki)
}

// config checks VERGE_CONFIG as the guest does, with placeholders for secrets. It returns the host of
// base_url, the methods, and dev. ok is false if the methods are not known.
func (c *checker) config() (host string, methods method.Catalog, dev, ok bool) {
	const at = "vars.VERGE_CONFIG"
	if c.file.Vars["VERGE_CONFIG"] == nil {
		c.add("vars", "VERGE_CONFIG is missing")
		return "", method.Catalog{}, false, false
	}
	object := c.object("VERGE_CONFIG")
	if object == nil {
		return "", method.Catalog{}, false, false
	}
	c.methods(at, object)
	c.keys(at, object)
	if object["operator_token"] != nil {
		c.add(
			at+".operator_token",
			"it is a secret: remove it, and put it: npx wrangler secret put VERGE_OPERATOR_TOKEN",
		)
	}
	for _, name := range []string{"keyring", "host", "key_set"} {
		if object[name] != nil {
			c.add(at+"."+name, "the Worker sets it: remove it")
			delete(object, name)
		}
	}
	text, err := json.Marshal(object)
	if err != nil {
		c.add(at, "%v", err)
		return "", method.Catalog{}, false, false
	}
	config, err := settings.Read(text)
	if err != nil {
		c.add(at, "%s", strings.TrimPrefix(err.Error(), "abi: "))
		return "", method.Catalog{}, false, false
	}
	if config.Dev {
		c.add(
			at+".dev",
			"it switches off checks that protect users: remove it. It is for tests on one machine",
		)
	}
	var wrong problem.List
	if err := settings.Explain(config.Validate().Err()); errors.As(err, &wrong) {
		for _, p := range wrong {
			c.add(at+"."+p.Member, "%s", p.Text)
		}
	}
	methods, bad := config.Catalog()
	if u, err := url.Parse(config.BaseURL); err == nil {
		host = u.Hostname()
	}
	if len(bad) > 0 {
		return host, methods, config.Dev, false
	}
	for _, p := range config.CheckKeys(context.Background(), method.Host{}) {
		c.add(at+"."+p.Member, "%s", p.Text)
	}
	return host, methods, config.Dev, true
}

// methods replaces the names of the methods' secrets and keys as the Worker does.
func (c *checker) methods(at string, object map[string]json.RawMessage) {
	var all []map[string]json.RawMessage
	if json.Unmarshal(object["methods"], &all) != nil {
		return // the guest's reader reports it
	}
	for i, m := range all {
		for member, instead := range map[string]string{"secrets_env": "secrets", "keys_env": "keys"} {
			if m[member] == nil {
				continue
			}
			path := fmt.Sprintf("%s.methods.%d.%s", at, i, member)
			var names map[string]string
			if json.Unmarshal(m[member], &names) != nil {
				c.add(path, "must be an object with names of secrets")
			}
			values := map[string]string{}
			for name, secret := range names {
				c.secret(path+"."+name, secret)
				values[name] = placeholder
			}
			delete(m, member)
			if instead == "keys" {
				m[instead], _ = json.Marshal(slices.Sorted(maps.Keys(values)))
			} else {
				m[instead], _ = json.Marshal(values)
			}
		}
	}
	object["methods"], _ = json.Marshal(all)
}

// keys replaces the names of the keys of the OpenID provider and of reports.
func (c *checker) keys(at string, object map[string]json.RawMessage) {
	if raw := object["oidc_provider"]; raw != nil {
		var of struct {
			Keys []string `json:"keys_env"`
		}
		if json.Unmarshal(raw, &of) != nil || len(of.Keys) == 0 {
			c.add(at+".oidc_provider", `must be like { "keys_env": ["OIDC_KEY"] }`)
		}
		var keys []string
		for i, name := range of.Keys {
			c.secret(fmt.Sprintf("%s.oidc_provider.keys_env.%d", at, i), name)
			keys = append(keys, placeholderKey(1+slices.Index(of.Keys, name)))
		}
		delete(object, "oidc_provider")
		if len(keys) > 0 {
			object["oidc_provider_keys"], _ = json.Marshal(keys)
		}
	}
	if raw := object["report"]; raw != nil {
		var of struct {
			Key string `json:"key_env"`
		}
		if json.Unmarshal(raw, &of) != nil || of.Key == "" {
			c.add(at+".report", `must be like { "key_env": "REPORT_KEY" }`)
		} else {
			c.secret(at+".report.key_env", of.Key)
			object["report_key"], _ = json.Marshal(placeholderKey(1))
		}
		delete(object, "report")
	}
}

// site checks the publishers and integrations of all variables together.
func (c *checker) site(methods method.Catalog, dev, known bool) {
	all, paths, found := c.siteLists()
	if !found || !known {
		return
	}
	text, err := json.Marshal(all)
	if err != nil {
		return
	}
	site, err := integration.ReadSite(text)
	var misread problem.List
	if err != nil && !errors.As(err, &misread) {
		c.add("vars.VERGE_SITE", "%v", err)
		return
	}
	reported := map[string]bool{}
	for _, p := range site.Problems(methods, dev, misread) {
		parts := strings.SplitN(p.Member, ".", 3)
		path := "vars.VERGE_SITE." + p.Member
		if len(parts) >= 2 && paths[parts[0]+"."+parts[1]] != "" {
			path = strings.Join(append([]string{paths[parts[0]+"."+parts[1]]}, parts[2:]...), ".")
		}
		c.add(path, "%s", p.Text)
		reported[path] = true
	}
	for i, entry := range all["integrations"] {
		for _, setting := range []string{"webhook_url", "alert_url"} {
			path := paths[fmt.Sprintf("integrations.%d", i)] + "." + setting
			var url string
			if json.Unmarshal(entry[setting], &url) != nil || url == "" || reported[path] {
				continue
			}
			if why := offLimits(url, dev); why != "" {
				c.add(path, "events cannot reach it: %s. The Worker rejects the configuration", why)
			}
		}
	}
}

// siteLists returns the publishers and integrations of all variables by the name of their list, and the place
// of each: paths["publishers.3"] is "vars.VERGE_SITE_2.publishers.0". found reports whether there is a
// variable.
func (c *checker) siteLists() (
	all map[string][]map[string]json.RawMessage, paths map[string]string, found bool) {
	all, paths = map[string][]map[string]json.RawMessage{}, map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.file.Vars)) {
		if !siteVariable.MatchString(name) {
			continue
		}
		found = true
		object := c.object(name)
		for member, raw := range object {
			at := "vars." + name + "." + member
			if member != "publishers" && member != "integrations" {
				c.add(at, "there is no such list: want publishers and integrations")
				continue
			}
			var list []map[string]json.RawMessage
			if json.Unmarshal(raw, &list) != nil {
				c.add(at, "must be a list of objects")
				continue
			}
			for i, entry := range list {
				path := fmt.Sprintf("%s.%d", at, i)
				c.webhookSecret(path, entry)
				paths[fmt.Sprintf("%s.%d", member, len(all[member]))] = path
				all[member] = append(all[member], entry)
			}
		}
	}
	return all, paths, found
}

// offLimits returns the reason why a Worker sends no events to a valid URL, or "". It is the rule of
// offLimits in edge/workers/src/egress.js: both have the cases of edge/workers/testdata/offlimits.json.
func offLimits(raw string, dev bool) string {
	if err := egress.New(egress.Config{Dev: dev}).Check(raw); err != nil {
		return "the address is not public"
	}
	u, err := url.Parse(raw)
	if err != nil {
		return "the URL is malformed"
	}
	host := strings.TrimRight(strings.ToLower(u.Hostname()), ".")
	if _, err := netip.ParseAddr(host); err == nil || dev && host == "localhost" {
		return ""
	}
	for _, end := range []string{".internal", ".local", ".home.arpa"} {
		if strings.HasSuffix(host, end) {
			return "the name is not public"
		}
	}
	if !strings.Contains(host, ".") {
		return "the name is not public"
	}
	return ""
}

// webhookSecret replaces the name of an integration's secret.
func (c *checker) webhookSecret(path string, entry map[string]json.RawMessage) {
	if entry["secret"] != nil {
		c.add(path+".secret", "it is a secret: put it by npx wrangler secret put, and name it in secret_env")
	}
	raw := entry["secret_env"]
	if raw == nil {
		return
	}
	var name string
	if json.Unmarshal(raw, &name) != nil {
		c.add(path+".secret_env", "must be the name of a secret")
	} else {
		c.secret(path+".secret_env", name)
	}
	delete(entry, "secret_env")
	entry["secret"], _ = json.Marshal(placeholder)
}
