package npmwallet

import (
	"encoding/hex"
	"testing"
	"time"
)

// Answered is what a wallet has found in a request, and what the service has said to its answer.
type Answered struct {
	Status                 int
	Body                   string
	ClientID, ResponseMode string
	Algorithms             []int // of documents, as the request announces them
}

// Answer has a wallet of @openid4vc/openid4vp and @owf/mdoc open a link and send its answer. Of the Document,
// it takes the type, the namespace and the transcript from the request.
func Answer(t testing.TB, link string, d Document) (a Answered) {
	t.Helper()
	var chain []string
	for _, der := range d.Chain {
		chain = append(chain, hex.EncodeToString(der))
	}
	Run(t, "answer-openid4vp.mjs", map[string]any{
		"link": link, "claims": d.Claims, "chain": chain,
		"issuerKey": jwk(t, d.IssuerKey), "deviceKey": jwk(t, d.DeviceKey),
		"signed": d.Signed.Format(time.RFC3339), "validUntil": d.ValidUntil.Format(time.RFC3339),
	}, &a)
	return a
}
