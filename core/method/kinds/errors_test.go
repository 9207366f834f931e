package kinds

import (
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/testharness/wallettest"
)

// Contract 34: a kind that sends no user to another site has no step for a return.
func TestAct_ReturnOfAnotherKind(t *testing.T) {
	issuer := wallettest.NewIssuer(wallettest.IssuerConfig{Now: time.Now(), EKU: wallettest.AgeSigner})
	for kind, of := range map[string]settings{
		"sandbox":   {},
		"estimator": {"profile": "plain", "url": "https://faces.example/"},
		"openid4vp": {"profile": "eu-av", "trust_anchors": []string{string(issuer.PEM())}},
	} {
		_, err := opened(t, kind, of).Act(t.Context(), method.Session{MinimumAge: 18, ChallengeAge: 25},
			method.Step{Form: url.Values{"state": {"a"}}, Back: true, State: []byte("b")})
		if !errors.Is(err, method.ErrStep) || method.ReasonOf(err) != "" {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
