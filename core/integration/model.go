package integration

import (
	"errors"
	"fmt"
	"strings"

	"github.com/verge-id/verge/core/session"
	"github.com/verge-id/verge/core/uuid"
	"github.com/verge-id/verge/core/weburl"
)

// Publisher is a customer of the operator.
type Publisher struct {
	ID   string `json:"id"` // pub_…
	Name string `json:"name"`
}

// Integration is how one publisher verifies in one place. Jurisdiction and provider behaviour differ by
// integration and not by request.
type Integration struct {
	ID           string  `json:"id"` // UUID, lower case
	PublisherID  string  `json:"publisher_id"`
	Name         string  `json:"name"`
	Level        string  `json:"level"`         // L1 or L2
	ChallengeAge int     `json:"challenge_age"` // years, 1 to 99
	Method       string  `json:"method"`        // name of the provider's method
	Webhook      Webhook `json:"webhook"`

	// CallbackOrigins limits callback_url. BrowserOrigins says from which pages a public key may be
	// used. An origin is scheme://host[:port]. An empty list of callback origins allows any callback
	// for a secret key and none for a public one (AllowsPublicKeys). An empty list of browser origins
	// allows no page.
	CallbackOrigins []string `json:"callback_origins,omitempty"`
	BrowserOrigins  []string `json:"browser_origins,omitempty"`
}

// Webhook is where an integration's events go.
type Webhook struct {
	// Off switches events off explicitly: none are made, and no test is needed.
	Off bool `json:"off,omitempty"`
	// URL is the destination. If it is empty, nothing is sent, as with Off, but the integration does
	// not count as ready.
	URL string `json:"url,omitempty"`
	// Sealed is the signing secret and the URL, sealed together with the integration's id.
	Sealed string `json:"sealed,omitempty"`
	// Hidden says that the URL is only in Sealed. It is set in the store. Elsewhere it is set only
	// while Sealed does not open.
	Hidden bool `json:"hidden,omitempty"`
}

// Sends reports whether lifecycle events are made.
func (w Webhook) Sends() bool { return !w.Off && (w.URL != "" || w.Hidden) }

// PublisherPrefix begins every publisher id.
const PublisherPrefix = "pub_"

// Validate reports everything that is wrong with p, one problem in each line.
func (p Publisher) Validate() error {
	if rest, ok := strings.CutPrefix(p.ID, PublisherPrefix); !ok || !isToken(rest) {
		return fmt.Errorf("publisher %q: id must be %s followed by 1 to 64 letters, digits, - or _",
			p.ID, PublisherPrefix)
	}
	return nil
}

// Validate reports everything that is wrong with i, one problem in each line. methods are the names of
// the methods that the service has. dev allows http to a loopback host.
func (i Integration) Validate(methods []string, dev bool) error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("integration %q: "+format, append([]any{i.ID}, args...)...))
	}
	if u, err := uuid.Parse(i.ID); err != nil || uuid.Format(u) != i.ID {
		bad("id must be a UUID in lower case")
	}
	if _, err := session.ParseLevel(i.Level); err != nil {
		bad("level is %q; it must be L1 or L2", i.Level)
	}
	if i.ChallengeAge < 1 || i.ChallengeAge > 99 {
		bad("challenge_age is %d; it must be from 1 to 99", i.ChallengeAge)
	}
	known := false
	for _, m := range methods {
		known = known || m == i.Method
	}
	if !known {
		bad("method is %q; this service has: %s", i.Method, strings.Join(methods, ", "))
	}
	for name, list := range map[string][]string{"callback_origins": i.CallbackOrigins,
		"browser_origins": i.BrowserOrigins} {
		for _, o := range list {
			if !weburl.IsOrigin(o, dev) {
				bad("%s has %q; an origin is https://host or https://host:port, nothing behind it", name, o)
			}
		}
	}
	if len(i.BrowserOrigins) > 0 && !i.AllowsPublicKeys(dev) {
		bad("browser_origins are for public keys, and a public key needs callback_origins too; " +
			"list the origins that users may return to")
	}
	if w := i.Webhook; w.URL != "" {
		if w.Off {
			bad("webhook has a url and is switched off; choose one")
		}
		if !weburl.IsWebhook(w.URL, dev) {
			bad("webhook url must be an absolute https URL without user name and fragment")
		}
	}
	return errors.Join(errs...)
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
