package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/verge-id/verge/core/internal/uuid"
	"github.com/verge-id/verge/core/internal/weburl"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/problem"
)

// Publisher is a customer of the operator.
type Publisher struct {
	ID   string `json:"id"` // pub_…
	Name string `json:"name"`

	Accent string `json:"accent,omitempty"` // colour of its hosted pages, #rrggbb; "": the service's
	Logo   *Logo  `json:"logo,omitempty"`

	Created  *time.Time `json:"created,omitempty"`  // nil: created by an earlier release
	Archived *time.Time `json:"archived,omitempty"` // since then, its keys are rejected
	Managed  bool       `json:"managed,omitempty"`  // only the configuration file changes it

	// Removed: the configuration file named it and no longer does. It works as before.
	Removed bool `json:"removed_from_file,omitempty"`
}

// Integration is how one publisher verifies in one place. Jurisdiction and provider behaviour differ by
// integration and not by request. A setting that is added here is declared in [Settings].
type Integration struct {
	ID           string  `json:"id"` // UUID, lower case
	PublisherID  string  `json:"publisher_id"`
	Name         string  `json:"name"`
	Level        string  `json:"level"`         // L1 or L2
	ChallengeAge int     `json:"challenge_age"` // years, 1 to 99; the least age of an estimate
	Method       string  `json:"method"`        // the first that the page offers
	Webhook      Webhook `json:"webhook"`

	// Methods are the names of all methods, in the order of the page, if there are several (contract 32).
	// Callers use Offers. An instance of an earlier release reads Method alone.
	Methods []string `json:"methods,omitempty"`

	// MethodSettings are settings for single methods, by name. They only make the method's own stricter.
	MethodSettings map[string]json.RawMessage `json:"method_settings,omitempty"`

	MinimumAge int `json:"minimum_age,omitempty"` // the age that a proof must prove; 0: see Minimum
	Attempts   int `json:"attempts,omitempty"`    // failed ones that a user has; 0: the service's setting

	// CallbackOrigins limits callback_url. BrowserOrigins says from which pages a public key may be
	// used. An origin is scheme://host[:port]. An empty list of callback origins allows any callback
	// for a secret key and none for a public one (AllowsPublicKeys). An empty list of browser origins
	// allows no page.
	CallbackOrigins []string `json:"callback_origins,omitempty"`
	BrowserOrigins  []string `json:"browser_origins,omitempty"`

	// RedirectURIs are the exact redirect URIs of the OpenID provider's client that this integration is
	// (contract 50). Without any, it is no client.
	RedirectURIs []string `json:"redirect_uris,omitempty"`

	// AlertURL receives an alert if deliveries fail for an hour (contract 61). "": no alerts.
	AlertURL string `json:"alert_url,omitempty"`

	// AlertSince is the time at which AlertURL was set: before, deliveries were not tracked. It is for the
	// store alone; the Directory sets it, and Shown leaves it out. nil: unknown, or no alerts.
	AlertSince *time.Time `json:"alert_since,omitempty"`

	// Staged is a change of the webhook that has not been tested yet (contract 25). Until it replaces Webhook
	// (Directory.Promote), events go to Webhook and are signed with its secret.
	Staged *Webhook `json:"staged,omitempty"`

	// Passkeys is where a passkey of a user counts: "off" (also ""), "publisher" or "service".
	Passkeys string `json:"passkeys,omitempty"`

	Created  *time.Time `json:"created,omitempty"`  // nil: created by an earlier release
	Archived *time.Time `json:"archived,omitempty"` // since then, it starts no session
	Managed  bool       `json:"managed,omitempty"`  // only the configuration file changes it

	// Removed: the configuration file named it and no longer does. It works as before.
	Removed bool `json:"removed_from_file,omitempty"`
}

// Values of Integration.Passkeys.
const (
	PasskeysOff       = "off"
	PasskeysPublisher = "publisher" // with this publisher
	PasskeysService   = "service"   // with all publishers of the service
)

// SiteIntegration is an integration of a configuration. The file names the place of Secret instead.
type SiteIntegration struct {
	ID              string   `json:"id" toml:"id"`
	Publisher       string   `json:"publisher" toml:"publisher"`
	Name            string   `json:"name" toml:"name"`
	Level           string   `json:"level" toml:"level"`
	ChallengeAge    int      `json:"challenge_age" toml:"challenge_age"`
	Method          string   `json:"method" toml:"method"`
	Methods         []string `json:"methods,omitempty" toml:"methods"` // instead of Method
	CallbackOrigins []string `json:"callback_origins" toml:"callback_origins"`
	BrowserOrigins  []string `json:"browser_origins" toml:"browser_origins"`
	RedirectURIs    []string `json:"redirect_uris,omitempty" toml:"redirect_uris"`
	WebhookURL      string   `json:"webhook_url" toml:"webhook_url"`
	WebhookOff      bool     `json:"webhook_off" toml:"webhook_off"`
	AlertURL        string   `json:"alert_url,omitempty" toml:"alert_url"`
	Secret          string   `json:"secret" toml:"-"`                    // of the webhook
	Archived        bool     `json:"archived,omitempty" toml:"archived"` // its other settings then do not matter

	MinimumAge     int                        `json:"minimum_age,omitempty" toml:"minimum_age"`
	Attempts       int                        `json:"attempts,omitempty" toml:"attempts"`
	Passkeys       string                     `json:"passkeys,omitempty" toml:"passkeys"`
	MethodSettings map[string]json.RawMessage `json:"method_settings,omitempty" toml:"-"`
}

// Setting declares a setting of integrations. [Settings] has all of them.
//
// To add a setting, declare it in Settings, and add a field with its JSON name to Integration, to
// SiteIntegration and, as a pointer, to operate.IntegrationInput. Its check, its entry in the audit, the
// operators' API, the configuration and the console's form follow from these.
type Setting struct {
	Name string // in JSON, the configuration file, forms and the audit

	// Required: the zero value is an error. Otherwise it is the default.
	Required bool

	Max     int      // of a number; the minimum is 1
	Options []option // the values of a text

	// Items is a noun for the values of a list. A form has one value per line. "": a form has a special field
	// for the list.
	Items string

	Doc string // in the description of the operators' API, of an integration as it is

	// The console's form has the sections "proof", "access" and "methods". Settings of one Row are next to
	// each other.
	Section                  string
	Row                      int
	Label, Hint, Placeholder string

	Default string // the console's text for a zero value

	seedKeeps bool // Directory.Seed replaces it only by a value that is not zero

	hidesPath bool // a value is an address; its path and query may hold a secret

	zero    string                              // the meaning of an empty text, if a value has the same
	initial any                                 // value of a new integration, if not zero
	normal  func(list []string) []string        // nil: lists are stored unchanged
	item    func(value string, dev bool) string // returns the problem of one value of a list

	// check adds the problems that also depend on other settings or on the service.
	check func(i Integration, methods method.Catalog, dev bool, wrong *problem.List)
}

// option is a value of a setting, with its text for people.
type option struct{ Value, Text string }

// MaxItems is the maximum number of values in a list. A record must fit into the store.
const MaxItems = 100

// Settings declares the settings of integrations, in the order of audit entries. The name, the publisher and
// the webhook of an integration are not among them.
var Settings = []Setting{
	{Name: "level", Required: true, initial: "L1", Section: "proof", Row: 1, Label: "Level",
		Options: []option{{"L1", "L1: an estimate is enough"}, {"L2", "L2: a proof of age"}}},
	{Name: "challenge_age", Required: true, initial: 25, Max: 99, Section: "proof", Row: 1,
		Label: "Challenge age", Hint: "The age that an estimate must reach.",
		Doc: "The required age of an estimate, in years."},
	{Name: "minimum_age", Max: 99, Section: "proof", Row: 1, Label: "Minimum age",
		Hint: "The age that a proof must show. Leave empty for 18, or for the challenge age if that is less.",
		Doc:  "The required age of a proof, in years; absent is the smaller of 18 and `challenge_age`."},
	{Name: "attempts", Max: 10, Section: "proof", Row: 2, Label: "Attempts", Default: "the service's default",
		Hint: "The number of failed attempts. Leave empty for the service's default.",
		Doc:  "The failed attempts that a user has; absent is the service's setting."},
	{Name: "methods", Required: true, check: Integration.checkMethods, Section: "methods", Row: 1,
		Label: "Methods",
		Doc:   "The methods in the order in which the page offers them, if there are several."},
	{Name: "method_settings", check: Integration.checkMethodSettings, Section: "methods", Row: 1,
		Label: "Method settings", Default: "the service's settings"},
	{Name: "callback_origins", Items: "origins", normal: weburl.Origins, item: originProblem,
		Section: "access", Row: 1, Label: "Callback origins", Default: "none",
		Placeholder: "https://shop.example",
		Hint: "One per line. Users return only to these origins. Leave empty to allow all; the " +
			"integration then cannot have public keys.",
		Doc: "The origins to which users may return; absent: all origins."},
	{Name: "browser_origins", Items: "origins", normal: weburl.Origins, item: originProblem,
		check: Integration.checkPublicKeys, Section: "access", Row: 2, Label: "Browser origins",
		Default: "none", Placeholder: "https://shop.example",
		Hint: "One per line. Pages of these origins may start sessions with a public key.",
		Doc:  "Pages from which public keys work."},
	{Name: "redirect_uris", Items: "addresses", item: weburl.CheckRedirect, hidesPath: true,
		seedKeeps: true, check: Integration.checkRedirects, Section: "access", Row: 3, Label: "Redirect URIs",
		Default: "none", Placeholder: "https://shop.example/oauth2/callback",
		Hint: "One per line, exactly as your OpenID client sends them. With one, the integration is a " +
			"client of the OpenID provider.",
		Doc: "The addresses to which the OpenID provider returns users; absent: not a client."},
	{Name: "alert_url", hidesPath: true, check: Integration.checkAlert, Section: "access", Row: 4,
		seedKeeps: true, Label: "Alert URL", Default: "none", Placeholder: "https://shop.example/alerts",
		Hint: "Receives a signed event, at most once a day, if deliveries to the webhook fail for an hour.",
		Doc:  "Receives an event, at most once a day, if deliveries fail for an hour (rule 61)."},
	{Name: "passkeys", seedKeeps: true, Section: "proof", Row: 2, Label: "Passkeys of users",
		Options: []option{{PasskeysOff, "Off"}, {PasskeysPublisher, "Yes, for sites of this publisher"},
			{PasskeysService, "Yes, for every site of this service"}},
		zero: PasskeysOff,
		Hint: "Whether verified users may use a passkey the next time."},
}

// Webhook is where an integration's events go.
type Webhook struct {
	// Off switches events off explicitly: none are made, and no test is needed.
	Off bool `json:"off,omitempty"`
	// URL is the destination. If it is empty, nothing is sent, as with Off, but the integration does
	// not count as ready.
	URL string `json:"url,omitempty"`
	// Sealed is the signing secret and the URL, sealed together with the integration's id. It is for the
	// store alone; Shown leaves it out.
	Sealed string `json:"sealed,omitempty"`
	// Hidden means that the URL is only in Sealed. It is set in the store. Elsewhere it is set only
	// while Sealed does not open.
	Hidden bool `json:"hidden,omitempty"`
}

// Sends reports whether lifecycle events are made.
func (w Webhook) Sends() bool { return !w.Off && (w.URL != "" || w.Hidden) }

// Shown returns i as others may see it: without the fields for the store alone.
func (i Integration) Shown() Integration {
	i.Webhook.Sealed, i.AlertSince = "", nil
	if i.Staged != nil {
		staged := *i.Staged
		staged.Sealed = ""
		i.Staged = &staged
	}
	return i
}

// PublisherPrefix begins every publisher id.
const PublisherPrefix = "pub_"

// Validate returns an error with all problems of p, one per line.
func (p Publisher) Validate() error {
	if rest, ok := strings.CutPrefix(p.ID, PublisherPrefix); !ok || !isToken(rest) {
		return fmt.Errorf("publisher %q: id must be %s followed by 1 to 64 letters, digits, - or _",
			p.ID, PublisherPrefix)
	}
	if bad := AccentProblem(p.Accent); bad != "" {
		return fmt.Errorf("publisher %q: %s", p.ID, bad)
	}
	return nil
}

// Offers returns the names of the integration's methods, in the order of the page.
func (i *Integration) Offers() []string {
	if len(i.Methods) > 0 {
		return i.Methods
	}
	return []string{i.Method}
}

// SetMethods sets the integration's methods, in the order of the page.
func (i *Integration) SetMethods(names []string) {
	i.Method, i.Methods = "", nil
	if len(names) > 0 {
		i.Method = names[0]
	}
	if len(names) > 1 {
		i.Methods = slices.Clone(names)
	}
}

// Minimum is the age that a proof of age must prove (contract 32).
func (i *Integration) Minimum() int {
	if i.MinimumAge > 0 {
		return i.MinimumAge
	}
	return min(18, i.ChallengeAge)
}

// Validate returns an error with all problems of i, one per line. methods are the methods of the service. dev
// allows http to a loopback host.
func (i Integration) Validate(methods method.Catalog, dev bool) error {
	var errs []error
	for _, p := range i.Problems(methods, dev) {
		errs = append(errs, fmt.Errorf("integration %q: %s", i.ID, p.Text))
	}
	return errors.Join(errs...)
}

// Problems returns the problems of i. Their members have the names of the operators' API and of the console's
// forms.
func (i Integration) Problems(methods method.Catalog, dev bool) problem.List {
	var wrong problem.List
	if !i.hasValidID() {
		wrong.Add("id", "id must be a UUID in lower case")
	}
	for _, setting := range Settings {
		setting.addProblems(i, methods, dev, &wrong)
	}
	if w := i.Webhook; w.URL != "" {
		if w.Off {
			wrong.Add("webhook_url", "webhook has a url and is switched off; choose one")
		}
		if bad := checkReceiver(w.URL, dev); bad != "" {
			wrong.Add("webhook_url", "webhook url: %s", bad)
		}
	}
	if w := i.Staged; w != nil {
		if w.Off {
			wrong.Add("webhook_off", "the staged webhook is switched off; switch the webhook off "+
				"without staging that")
		}
		if w.URL != "" {
			if bad := checkReceiver(w.URL, dev); bad != "" {
				wrong.Add("webhook_url", "the staged webhook url: %s", bad)
			}
		}
	}
	return wrong
}

func (i Integration) hasValidID() bool {
	u, err := uuid.Parse(i.ID)
	return err == nil && uuid.Format(u) == i.ID
}

// AllowsPublicKeys reports whether the integration may have public keys, and whether those that it has may
// start sessions (contract 8). Anybody can read a public key, and the one who chooses the callback gets the
// result token. So the callbacks must be limited. Dev mode allows any.
func (i Integration) AllowsPublicKeys(dev bool) bool { return dev || len(i.CallbackOrigins) > 0 }

func isToken(s string) bool {
	if len(s) == 0 || len(s) > 64 {
		return false
	}
	return strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}
