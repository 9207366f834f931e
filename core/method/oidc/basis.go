package oidc

import (
	"strconv"
	"strings"

	"github.com/verge-id/verge/core/internal/verdict"
	"github.com/verge-id/verge/core/method"
)

var _ method.Fingerprinter = (*client)(nil)

// Fingerprint implements method.Fingerprinter. A verdict depends on the signer and the audience, and on the
// part that proves an age. The way in which the client sends requests and authenticates may change.
func (c *client) Fingerprint() string {
	of := []string{c.issuer, c.clientID, strconv.FormatBool(c.userinfo), strings.Join(c.acrValues, " ")}
	if s := c.credential; s != nil {
		of = append(of, s.issuer, s.did, verdict.Digest(s.claim...))
	}
	for _, p := range c.proofs {
		of = append(of, p.facts()...)
	}
	return verdict.Digest(of...)
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

// asked returns a digest of the provider, the client and the proof of a request.
func (c *client) asked(p proof) string {
	return verdict.Digest(append([]string{c.issuer, c.clientID}, p.facts()...)...)
}

// askedProof returns the proof that a request has asked for. It is not ok if the settings have changed since,
// or if the proof's age is now below the minimum age.
func (c *client) askedProof(asked string, minimumAge int) (proof, bool) {
	for _, p := range c.proofs {
		if c.asked(p) == asked {
			return p, p.birthdate || p.age >= minimumAge
		}
	}
	return proof{}, false
}
