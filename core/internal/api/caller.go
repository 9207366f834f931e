package api

import (
	"errors"
	"strings"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/web"
)

// Each request passes three steps, in this order:
//
//  1. The key is parsed. This does not read the store.
//  2. The request is counted against its address, and in the same step against the key if that seems valid.
//  3. The key is looked up, and its rights are checked. A valid key that step 2 did not count is counted now.
//
// So a guessed key counts as well. After its address has reached the limit, guesses no longer read the store.

var errUnauthorized = &web.Error{Code: web.Unauthorized,
	Message: "Send a valid secret key as \"Authorization: Bearer svc_sk_…\"."}

// errNoStartKey is the error of a start without an Authorization header. It does not ask for the secret key
// alone, because a browser must not have it.
var errNoStartKey = &web.Error{Code: web.Unauthorized, Message: "Send a valid secret key as " +
	"\"Authorization: Bearer svc_sk_…\" from a server, or a valid public key in public_key from a browser."}

// secretCaller returns the active secret key in the Authorization header. ofKey returns the limits of the
// key; nil if the key has no limits.
func (c *call) secretCaller(ofKey keyRules) (*integration.Key, error) {
	text, _ := c.Header.Bearer()
	return c.secretCallerOf(text, ofKey)
}

// secretCallerOf is secretCaller for a key with that text.
func (c *call) secretCallerOf(text string, ofKey keyRules) (*integration.Key, error) {
	presented := integration.Present(integration.SecretPrefix, text)

	rules := append(noRules(), c.secretIP())
	if ofKey != nil && c.seemsSecret(presented) {
		rules = ofKey(rules, presented.ID(), c.seenPublisher(presented))
	}
	if err := c.Take(c.ctx, rules...); err != nil {
		return nil, err
	}

	key, err := c.secretKey(text, presented)
	if err == nil && ofKey != nil {
		err = c.TakeKey(c.ctx, ofKey(rules[:0], key.ID, key.PublisherID))
	}
	return key, c.used(key, err)
}

// publicCaller returns the active public key in the body, if it may start this request, and the body. The key
// is nil if public_key is not a string; the body's field errors then include it.
func (c *call) publicCaller() (*integration.Key, *fields, error) {
	// The body contains the key, so it is read before the request is counted. Its errors are returned after
	// that.
	f, wrong := c.body()
	var presented integration.Presented
	isText := true
	if wrong == nil {
		var text string
		text, _, isText = f.object.String("public_key")
		presented = integration.Present(integration.PublicPrefix, text)
	}

	rules := c.publicIP()
	if c.seemsPublic(presented) {
		rules = c.publicKeyRules(rules, presented.ID(), c.seenPublisher(presented))
	}
	if err := c.Take(c.ctx, rules...); err != nil {
		return nil, nil, c.readable(err)
	}

	if wrong != nil {
		return nil, nil, c.readable(wrong)
	}
	if !isText {
		return nil, f, nil
	}
	key, err := c.activeKey(presented)
	if errors.Is(err, errUnauthorized) {
		err = errNoStartKey
	}
	if err != nil {
		return nil, nil, c.readable(err)
	}
	if err := c.allowPublic(key); err != nil {
		return nil, nil, err
	}
	return key, f, c.used(key, c.TakeKey(c.ctx, c.publicKeyRules(rules[:0], key.ID, key.PublisherID)))
}

// used records that a key has authenticated a request, unless err is not nil. It returns err.
func (c *call) used(key *integration.Key, err error) error {
	if err == nil {
		c.about.Key, c.about.Publisher = key.ID, key.PublisherID
		c.CountUsage(host.UsageEvent{Key: key.ID})
	}
	return err
}

// browser reports whether the request comes from a page.
func (c *call) browser() bool {
	return c.Header.Has("Origin") || c.Header.Has("Sec-Fetch-Site")
}

// seenPublisher returns the publisher of a key, or "" if this instance has not read the key yet.
func (c *call) seenPublisher(presented integration.Presented) string {
	if seen := c.Directory.SeenKey(presented); seen != nil {
		return seen.PublisherID
	}
	return ""
}

// seemsSecret reports whether the secret key will be accepted, as far as this instance knows.
func (c *call) seemsSecret(presented integration.Presented) bool {
	if c.browser() || presented == (integration.Presented{}) {
		return false
	}
	seen := c.Directory.SeenKey(presented)
	return seen == nil || seen.Active(c.Now)
}

// seemsPublic reports whether the public key may start this request, as far as this instance knows. Anyone
// can read a public key, so rejected requests must not use up its limit.
func (c *call) seemsPublic(presented integration.Presented) bool {
	if presented == (integration.Presented{}) {
		return false
	}
	seen := c.Directory.SeenKey(presented)
	if seen == nil {
		return true
	}
	i := c.Directory.SeenIntegration(seen.IntegrationID)
	return seen.Active(c.Now) && (i == nil || i.Archived == nil && c.publicRejection(i) == nil)
}

// secretKey returns the key in the Authorization header, if it is an active secret key sent by a server.
// presented is the parsed text.
func (c *call) secretKey(text string, presented integration.Presented) (*integration.Key, error) {
	if strings.HasPrefix(text, integration.PublicPrefix) {
		if _, err := c.activeKey(integration.Present(integration.PublicPrefix, text)); err != nil {
			return nil, err
		}
		return nil, &web.Error{Code: web.Forbidden, Message: "A public key cannot do this, and must " +
			"not be in the Authorization header. Use the secret key, from a server."}
	}
	key, err := c.activeKey(presented)
	if err != nil {
		return nil, err
	}
	if c.browser() {
		return nil, &web.Error{Code: web.Forbidden, Message: "A secret key must not be used in a " +
			"browser. Call from a server, and replace this key: anyone who opened the page can read it."}
	}
	return key, nil
}

// activeKey returns a known key that is neither expired nor revoked, of a publisher that is not archived.
func (c *call) activeKey(presented integration.Presented) (*integration.Key, error) {
	key, err := c.Directory.KeyOf(c.ctx, presented)
	if errors.Is(err, integration.ErrNotFound) || err == nil && !key.Active(c.Now) {
		return nil, errUnauthorized
	}
	if err != nil {
		return nil, err
	}
	archived, err := c.Directory.PublisherArchived(c.ctx, key.PublisherID)
	if err != nil {
		return nil, err
	}
	if archived {
		return nil, errUnauthorized
	}
	return key, nil
}

// allowPublic returns an error if the public key may not start this request (contract 8).
func (c *call) allowPublic(key *integration.Key) error {
	i, err := c.startable(key, key.IntegrationID)
	if err != nil {
		return err
	}
	if i == nil && !c.Header.Has("Origin") {
		return nil // start returns the error: no such integration
	}
	if i == nil {
		return errOrigin
	}
	err = c.publicRejection(i)
	if c.Header.Has("Origin") && err != error(errOrigin) {
		c.corsHeaders(c.Header.Get("Origin"))
	}
	return err
}

// ownIntegration returns an integration of the key's publisher; nil if it has no such integration.
func (c *call) ownIntegration(key *integration.Key, id string) (*integration.Integration, error) {
	i, err := c.Directory.Integration(c.ctx, id)
	if errors.Is(err, integration.ErrNotFound) || err == nil && i.PublisherID != key.PublisherID {
		return nil, nil
	}
	return i, err
}

// startable is ownIntegration without archived integrations: for start, they do not exist (contract 46).
func (c *call) startable(key *integration.Key, id string) (*integration.Integration, error) {
	i, err := c.ownIntegration(key, id)
	if err != nil || i == nil || i.Archived != nil {
		return nil, err
	}
	return i, nil
}
