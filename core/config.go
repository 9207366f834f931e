package core

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/core/admin"
	"github.com/verge-id/verge/core/internal/language"
	"github.com/verge-id/verge/core/internal/lifecycle"
	"github.com/verge-id/verge/core/internal/openid"
	"github.com/verge-id/verge/core/internal/outbox"
	"github.com/verge-id/verge/core/internal/report"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/signature"
	"github.com/verge-id/verge/core/internal/usage"
	"github.com/verge-id/verge/core/internal/weburl"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/kinds"
	"github.com/verge-id/verge/core/method/sandbox"
	"github.com/verge-id/verge/core/problem"
	"github.com/verge-id/verge/core/setting"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
)

// Config is the configuration of a service. BaseURL is required, and so are Methods in production. Any other
// field that is zero has the value of the contract. Package setting explains the tags: a guest reads its
// configuration by them (wasm/ABI.md).
type Config struct {
	// BaseURL is the address of the service for users and publishers: scheme and host, without a path. https
	// unless Dev.
	BaseURL string `setting:"base_url" toml:"base_url"`

	// Dev adds the sandbox, too. It allows an http BaseURL and http callbacks to loopback, and starts
	// sessions on integrations that are not ready.
	Dev bool `setting:"dev"`

	// Test adds the sandbox, a method that verifies no user. Everything else is as in production.
	Test bool `setting:"test"`

	// OperatorToken opens the admin API: 24 characters or more. "": no one has access.
	OperatorToken string `setting:"operator_token"`

	// Console is the listener of the console: one of the Console constants.
	Console string `setting:"console" toml:"console.listener" default:"public"`

	// ProviderKeys are the public keys of the OpenID provider, each a SubjectPublicKeyInfo on P-256 in
	// base64. The host signs with the private key of the first one, under the name ProviderKeyName(1). The
	// others are published for a rotation. Empty: the service has no OpenID provider.
	ProviderKeys []string `setting:"oidc_provider_keys"`

	// ReportKey is the public key of reports for regulators, a SubjectPublicKeyInfo on P-256 in base64. The
	// host signs with its private key, under the name ReportKeyName. "": the service makes no reports.
	ReportKey string `setting:"report_key"`

	// SoftwareVersion and SoftwareDigest, a SHA-256, name the running binary or module in reports. "": they
	// are not known.
	SoftwareVersion string `setting:"software_version"`
	SoftwareDigest  string `setting:"software_digest"`

	// HostFetchesLists is set by a host that fetches and verifies trusted lists itself (contract 53). Then
	// the operators' API loads none, so that an operator token cannot add an issuer of documents.
	HostFetchesLists bool `setting:"host_fetches_lists"`

	// Partitions is the number of KV partitions over which sessions are spread. It may grow. It may shrink
	// once no session of the old count is stored.
	Partitions int `setting:"partitions" default:"1"`

	// ServiceName is the name of the service on the hosted pages, in the console and in the dialogs of
	// passkeys: 1 to 40 characters.
	ServiceName string `setting:"service_name" toml:"service_name" default:"Verge"`

	// HelpURL and PrivacyURL are pages of the operator for users, https unless Dev. Every hosted page links
	// to them. "": there is no link.
	HelpURL    string `setting:"help_url" toml:"help_url"`
	PrivacyURL string `setting:"privacy_url" toml:"privacy_url"`

	// SecurityContact is the contact for people who have found a weakness, for /.well-known/security.txt
	// (RFC 9116): mailto: and an address, or an https address. "": there is no such file.
	SecurityContact string `setting:"security_contact" toml:"security_contact"`

	// Attempts is the number of failed attempts that a user has.
	Attempts int `setting:"attempts" toml:"attempts" default:"3"`

	// PasskeyDays is the number of days for which a user's passkey stands for the verification before it.
	PasskeyDays int `setting:"passkey_days" toml:"passkey_days" default:"365"`

	// OutcomeLife is the time for which outcomes can be reconciled. Zero: StandardOutcomeLife, which rule 21
	// of CONTRACT.md and the example of the configuration repeat.
	OutcomeLife time.Duration `setting:"outcome_life_ms" toml:"outcome_life"`

	// AttemptTime bounds one webhook attempt: the time that the Fetcher allows, and room for the record.
	// Zero: 13 s.
	AttemptTime time.Duration `setting:"attempt_time_ms"`

	// Lease is the time for which a claimed task belongs to its claimant. It is more than twice the
	// AttemptTime. Zero: 27 s. If the store fails, the reply to a claim can be lost, or the outcome of a
	// task not recorded. Such a task keeps its lease. With 27 s it is due again within half a minute of the
	// store's return.
	Lease time.Duration `setting:"lease_ms"`

	// Limits are the rates.
	Limits web.Limits `toml:"limits"`

	// Schedule has the times at which webhooks are tried again.
	Schedule webhook.Schedule

	// Methods are the methods that integrations name. In Test and Dev the sandbox is one of them, whether or
	// not it is in the list.
	Methods []method.Config `setting:"methods"`

	// Kinds are the kinds of Methods, and the sandbox. Nil: kinds.All; append your own kinds to these. They
	// are code, so they are not encoded.
	Kinds []method.Kind
}

// Listeners of the console (contract 43).
const (
	ConsolePublic    = "public"    // at BaseURL, where members' passkeys work
	ConsoleOperators = "operators" // on the operators' listener
	ConsoleOff       = "off"
)

// SessionLife is the time from the start of a session to its expiry.
const SessionLife = session.Life

// DeadEventLife is how long an event whose delivery has failed is kept.
const DeadEventLife = outbox.DeadLife

// StandardOutcomeLife is the default of Config.OutcomeLife.
const StandardOutcomeLife = 30 * 24 * time.Hour

// maxPasskeyDays is ten years.
const maxPasskeyDays = 3653

// withDefaults returns c with the default of every field that is zero.
func (c Config) withDefaults() Config {
	setting.SetDefaults(&c)
	c.OutcomeLife = cmp.Or(c.OutcomeLife, StandardOutcomeLife)
	c.AttemptTime = cmp.Or(c.AttemptTime, outbox.AttemptTime)
	c.Lease = cmp.Or(c.Lease, leaseFor(outbox.AttemptTime))
	return c
}

// FetchesWithin sets AttemptTime and Lease for a Fetcher whose requests end after timeout.
func (c *Config) FetchesWithin(timeout time.Duration) {
	c.AttemptTime = outbox.AttemptTimeFor(timeout)
	c.Lease = leaseFor(c.AttemptTime)
}

// leaseFor returns the Lease for attempts of that length.
func leaseFor(attempt time.Duration) time.Duration { return 2*attempt + time.Second }

// Validate returns the problems of c. New rejects a Config with any problem.
func (c Config) Validate() problem.List {
	_, wrong := c.parse()
	return wrong
}

// parsed is a Config with all defaults, and the values of its texts.
type parsed struct {
	Config
	catalog      method.Catalog
	providerKeys openid.Keys
	reportKey    []byte // nil: none
}

// parse returns the values of c, and its problems.
func (c Config) parse() (p parsed, wrong problem.List) {
	c = c.withDefaults()
	p.Config = c
	c.validateBaseURL(&wrong)
	methods, bad := c.Catalog()
	p.catalog = methods
	wrong = append(wrong, bad...)
	if len(c.Methods) == 0 && !c.Dev && !c.Test {
		wrong.Add("Methods", "no verification method is configured, and the sandbox, which verifies no "+
			"user, runs in dev and test mode only; configure a method, or set mode = \"test\" for a "+
			"deployment against which publishers try their code")
	}
	for _, e := range methods {
		if e.Of.Sandbox && !c.Dev && !c.Test {
			wrong.Add("methods."+e.Name, "%s verifies no user and runs in dev and test mode only; "+
				"configure a real method", e.Kind)
		}
	}
	if err := admin.CheckToken(c.OperatorToken); err != nil {
		wrong.AddError("OperatorToken", err)
	}
	if c.Console != ConsolePublic && c.Console != ConsoleOperators && c.Console != ConsoleOff {
		wrong.Add("Console", "%q is not %s, %s or %s", c.Console, ConsolePublic, ConsoleOperators, ConsoleOff)
	}
	var err error
	if p.providerKeys, err = openid.ParseKeys(c.ProviderKeys); err != nil {
		wrong.AddError("ProviderKeys", err)
	}
	if p.reportKey, err = parseReportKey(c.ReportKey); err != nil {
		wrong.AddError("ReportKey", err)
	}
	checkContact(c.SecurityContact, &wrong)
	c.validateBrand(&wrong)
	if c.Partitions < 1 || c.Partitions > 1<<16-1 {
		wrong.Add("Partitions", "%d is not from 1 to 65535", c.Partitions)
	}
	if c.Attempts < 1 {
		wrong.Add("Attempts", "%d is too few; it must be at least 1", c.Attempts)
	}
	if c.OutcomeLife < lifecycle.MinOutcomeLife {
		wrong.Add("OutcomeLife", "%s is too short; it must be at least %s, since a session and its result "+
			"token live 15 minutes and publishers ask later", c.OutcomeLife, lifecycle.MinOutcomeLife)
	}
	if c.PasskeyDays < 1 || c.PasskeyDays > maxPasskeyDays {
		wrong.Add("PasskeyDays", "%d is not from 1 to %d", c.PasskeyDays, maxPasskeyDays)
	}
	wrong.AddWithin("Limits.", c.Limits.Validate())
	wrong.AddWithin("Schedule.", c.Schedule.Validate())
	if c.AttemptTime < 0 {
		wrong.Add("AttemptTime", "%s is negative; it must be more than 0s", c.AttemptTime)
	} else if c.Lease <= 2*c.AttemptTime {
		wrong.Add("Lease", "%s is too short; it must be more than twice the attempt time of %s",
			c.Lease, c.AttemptTime)
	}
	return p, wrong
}

// Catalog returns the methods of the service, and the problems of their configuration.
func (c Config) Catalog() (method.Catalog, problem.List) {
	known, methods := c.Kinds, c.Methods
	if known == nil {
		known = kinds.All
	}
	hasSandbox := slices.ContainsFunc(methods, func(m method.Config) bool { return m.Name == sandbox.Name })
	if (c.Dev || c.Test) && !hasSandbox {
		methods = append(slices.Clip(methods), method.Config{Name: sandbox.Name, Kind: sandbox.Name})
	}
	if !slices.ContainsFunc(known, func(k method.Kind) bool { return k.Name == sandbox.Name }) {
		known = append(slices.Clip(known), sandbox.Kind)
	}
	catalog, wrong := method.NewCatalog(known, methods, c.Dev)
	for _, k := range known {
		if k.Open == nil || k.Level != "L1" && k.Level != "L2" {
			wrong.Add("Kinds", "%q needs Open, and L1 or L2 as its Level", k.Name)
		}
	}
	for _, m := range methods {
		for _, lang := range slices.Sorted(maps.Keys(m.Titles)) {
			if !language.Known(lang) {
				wrong.Add("methods."+m.Name+".title", "%q is no language of the pages; use one of: %s", lang,
					strings.Join(language.All, ", "))
			}
		}
	}
	return catalog, wrong
}

// CheckKeys reports keys of methods that do not belong to their certificates, and certificates that are not
// for the service. Without the host's Sign, it checks only the certificates. Call it after Catalog.
func (c Config) CheckKeys(ctx context.Context, h method.Host) (wrong problem.List) {
	catalog, _ := c.Catalog()
	for _, e := range catalog {
		if e.Of.CheckKeys == nil {
			continue
		}
		returnURL := ""
		if base, err := url.Parse(c.BaseURL); err == nil && base.Host != "" {
			returnURL = c.BaseURL + web.ReturnPath + e.Name
		}
		wrong.AddWithin("methods."+e.Name+"."+e.Kind+".", e.Of.CheckKeys(ctx, e.Config, h, returnURL))
	}
	return wrong
}

// ProviderKeyName returns the name by which Host.Sign knows the private key of Config.ProviderKeys at that
// place, from 1.
func ProviderKeyName(n int) string { return openid.KeyName(n) }

// ProviderKeyIDs returns the ids (kid) of ProviderKeys, in their order. The first one signs.
func (c Config) ProviderKeyIDs() (ids []string) {
	keys, _ := openid.ParseKeys(c.ProviderKeys)
	return keys.IDs()
}

// ReportKeyName is the name by which Host.Sign knows the private key of Config.ReportKey.
const ReportKeyName = report.KeyName

// parseReportKey returns the public key of reports, or nil.
func parseReportKey(text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	spki, err := base64.StdEncoding.DecodeString(text)
	if _, _, ok := signature.P256(spki); err != nil || !ok {
		return nil, errors.New("it must be a public key on P-256")
	}
	return spki, nil
}

// reports returns the part of reports that the configuration determines.
func (c parsed) reports() report.Config {
	mode := "production"
	switch {
	case c.Dev:
		mode = "dev"
	case c.Test:
		mode = "test"
	}
	days := func(n int) string { return strconv.Itoa(n) + " days" }
	return report.Config{Key: c.reportKey, Mode: mode, Attempts: c.Attempts,
		Software: report.Software{Version: c.SoftwareVersion, Digest: c.SoftwareDigest},
		Retention: []report.Retention{
			{Data: "Photos, documents, dates of birth, exact ages, names", Kept: "not stored"},
			{Data: "State and user id of the publisher",
				Kept: "sealed in the browser for the life of the session, and in events until " +
					"they are delivered"},
			{Data: "Sessions in progress", Kept: SessionLife.String()},
			{Data: "Outcomes and last steps of sessions",
				Kept: c.OutcomeLife.String() + " after the session"},
			{Data: "Delivered events, without state and user id", Kept: days(7)},
			{Data: "Events whose delivery failed", Kept: days(int(DeadEventLife / (24 * time.Hour)))},
			{Data: "Passkeys of users, without names", Kept: days(c.PasskeyDays)},
			{Data: "Counts of outcomes by integration and day", Kept: days(usage.MaxDays)},
			{Data: "Audit of changes", Kept: "1 year"},
			{Data: "Publishers, integrations and keys", Kept: "until they are deleted from the store"},
		}}
}

// AllowsPasskeys reports whether browsers offer passkeys at BaseURL: its host is a name and no IP address.
func (c Config) AllowsPasskeys() bool { return passkeysAt(c.BaseURL, "Verge") != nil }

func (c Config) validateBaseURL(wrong *problem.List) {
	const member = "BaseURL"
	origin, bad := weburl.ParseOrigin(c.BaseURL, c.Dev)
	switch {
	case c.BaseURL == "":
		wrong.Add(member, "not set; it is where users and publishers reach the service, "+
			"such as https://verify.example.com")
	case strings.HasPrefix(c.BaseURL, "http://") && !c.Dev:
		wrong.Add(member, "%q must be https; http is for dev mode", c.BaseURL)
	case bad != "":
		wrong.Add(member, "%q: %s", c.BaseURL, bad)
	case origin != c.BaseURL: // it is compared with the Origin that browsers send
		wrong.Add(member, "%q is not how browsers write it; use %s", c.BaseURL, origin)
	}
}
