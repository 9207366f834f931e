package sdjwt_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"testing"
	"time"

	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/core/internal/sdjwt"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/npmwallet"
	"github.com/verge-id/verge/testharness/wallettest"
)

// TestVerify_Peers verifies presentations that @sd-jwt/sd-jwt-vc has made, and has it verify ours.
func TestVerify_Peers(t *testing.T) {
	long.Skip(t, "TestVerify_Peers")
	for _, curve := range []elliptic.Curve{elliptic.P256(), elliptic.P384()} {
		w := newWorld(t)
		w.issuer = wallettest.NewIssuer(wallettest.IssuerConfig{Now: now, Between: 1, Curve: curve})
		w.wallet.Issuer = w.issuer
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		w.wallet.Key = key
		w.wallet.Claims["nationalities"] = []any{"DE"}
		stale := w.present(binding("nonce", "another"))
		got := npmwallet.SDJWT(t, npmwallet.Document{SDJWTClaims: w.wallet.Claims, Chain: w.issuer.Chain,
			IssuerKey: w.issuer.Key, DeviceKey: key, Signed: now.AddDate(0, 0, -1),
			ValidUntil: now.AddDate(0, 2, 0), Now: now}, "urn:eudi:pid:1",
			[][][]string{{overPath, bornPath}, {bornPath}, {{"age_equal_or_over", "25"}, bornPath},
				{{"nationalities"}}},
			npmwallet.Binding{Audience: client, Nonce: nonce, IssuedAt: now.Unix()},
			w.present(nil), stale)
		for n, want := range []struct{ over, born bool }{{true, false}, {false, true}, {false, true},
			{false, false}} {
			p, err := sdjwt.Verify(t.Context(), got.Theirs[n], w.ask())
			if err != nil {
				t.Errorf("contract 39: %s: presentation %d: %v", curve.Params().Name, n, err)
				continue
			}
			over, _ := p.Claims[0].Bool()
			date, born := p.Claims[1].Date()
			if over != want.over || born != want.born || born && date.Format(time.DateOnly) != "1986-02-28" ||
				p.Issuer.Status.Kind != mdoc.NoStatus {
				t.Errorf("contract 39: presentation %d: %+v", n, p)
			}
			changed := []byte(got.Theirs[n])
			changed[len(changed)/2] ^= 1
			if _, err := sdjwt.Verify(t.Context(), string(changed), w.ask()); err == nil {
				t.Errorf("contract 39: presentation %d is accepted with a change", n)
			}
		}
		ours, other := got.Verdicts[0], got.Verdicts[1]
		ages, _ := ours.Claims["age_equal_or_over"].(map[string]any)
		if ours.Error != "" || ours.Audience != client || ages["18"] != true || len(ages) != 1 ||
			ours.Claims["birthdate"] != nil {
			t.Errorf("contract 39: @sd-jwt/sd-jwt-vc reads %+v", ours)
		}
		if other.Error == "" {
			t.Errorf("contract 39: @sd-jwt/sd-jwt-vc accepts another nonce: %+v", other)
		}
	}
}
