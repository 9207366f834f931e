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
		of = append(of, verdict.Digest(p.claim...), p.equals.JSON(), strconv.Itoa(p.age),
			strconv.FormatBool(p.birthdate))
		for _, r := range p.require {
			of = append(of, verdict.Digest(r.claim...), r.equals.JSON())
		}
	}
	return verdict.Digest(of...)
}
