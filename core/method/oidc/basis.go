package oidc

import (
	"slices"
	"strconv"
	"strings"

	"github.com/verge-id/verge/core/internal/verdict"
	"github.com/verge-id/verge/core/method"
)

var _ method.Fingerprinter = (*client)(nil)

// Fingerprint implements method.Fingerprinter. A verdict depends on the signer and the audience, and on the
// part that proves an age. The way in which the client sends requests and authenticates may change.
func (c *client) Fingerprint() string {
	of := c.source(c.acrValues)
	for _, p := range c.proofs {
		of = append(of, p.facts()...)
	}
	return verdict.Digest(of...)
}

// source returns the settings that determine whose claims count.
func (c *client) source(acr []string) []string {
	of := []string{c.issuer, c.clientID, strconv.FormatBool(c.userinfo), strings.Join(acr, " ")}
	if s := c.credential; s != nil {
		of = append(of, s.issuer, s.did, verdict.Digest(s.claim...))
	}
	return of
}

// facts returns the settings of a proof that its verdict depends on.
func (p proof) facts() []string {
	of := []string{verdict.Digest(p.claim...), p.equals.JSON(), strconv.Itoa(p.age),
		strconv.FormatBool(p.birthdate)}
	for _, r := range p.require {
		of = append(of, verdict.Digest(r.claim...), r.equals.JSON())
	}
	return of
}

// asked returns a digest of the settings that the return of a request is judged by.
func (c *client) asked(p proof, acr []string) string {
	return verdict.Digest(slices.Concat(c.source(acr), []string{strconv.Itoa(c.maxAge)}, p.facts())...)
}

// askedProof returns the proof that a request has asked for. It returns a method.ErrOutdated if the settings
// have changed since, or if the proof's age is now below the minimum age.
func (c *client) askedProof(asked string, acr []string, minimumAge int) (proof, error) {
	setting := "methods." + kindName
	for _, p := range c.proofs {
		switch {
		case c.asked(p, acr) == asked && (p.birthdate || p.age >= minimumAge):
			return p, nil
		case c.asked(p, acr) == asked:
			setting = "minimum_age"
		case c.asked(p, c.acrValues) == asked: // the integration had no separate acr_values
			setting = "method_settings"
		}
	}
	return proof{}, &method.SettingError{Setting: setting, Err: method.ErrOutdated}
}
