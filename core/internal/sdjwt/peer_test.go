package sdjwt_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/core/internal/sdjwt"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/npmwallet"
	"github.com/verge-id/verge/testharness/wallettest"
)

// update writes the presentations of a peer, for the short run.
var update = flag.Bool("update", false, "write testdata/sd-jwt-vc.json (with VERGE_LONG=1)")

const recordedFile = "testdata/sd-jwt-vc.json"

// recorded is a presentation that @sd-jwt/sd-jwt-vc has made at the time now.
type recorded struct {
	Root         []byte // the trust anchor, in DER
	Presentation string
}

// TestVerify_Recorded verifies a presentation of another library without Node.
func TestVerify_Recorded(t *testing.T) {
	b, err := os.ReadFile(recordedFile)
	if err != nil {
		t.Fatal(err)
	}
	var r recorded
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	a := newFixture(t).ask()
	if a.Issuers.Anchors, err = mdoc.ParseAnchors(r.Root); err != nil {
		t.Fatal(err)
	}
	p, err := sdjwt.Verify(t.Context(), r.Presentation, a)
	if err != nil {
		t.Fatalf("contract 39: %v", err)
	}
	if over, ok := p.Claims[0].Bool(); !over || !ok {
		t.Errorf("contract 39: %+v", p.Claims)
	}
	a.Nonce += "x"
	if _, err := sdjwt.Verify(t.Context(), r.Presentation, a); err == nil {
		t.Error("contract 39: it is accepted for another nonce")
	}
}

// TestVerify_Peers verifies presentations that @sd-jwt/sd-jwt-vc has made, and has it verify ours.
func TestVerify_Peers(t *testing.T) {
	long.Skip(t, "TestVerify_Peers")
	for _, curve := range []elliptic.Curve{elliptic.P256(), elliptic.P384()} {
		w := newFixture(t)
		w.issuer = wallettest.NewIssuer(wallettest.IssuerConfig{Now: now, Between: 1, Curve: curve})
		w.wallet.Issuer = w.issuer
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		w.wallet.Key = key
		w.wallet.Claims["nationalities"] = []any{"DE"}
		stale := w.present(binding("nonce", "another"))
		got := npmwallet.Document{SDJWTClaims: w.wallet.Claims, Chain: w.issuer.Chain,
			IssuerKey: w.issuer.Key, DeviceKey: key, Signed: now.AddDate(0, 0, -1),
			ValidUntil: now.AddDate(0, 2, 0), Now: now, Audience: client,
			Nonce: nonce}.SDJWT(t, "urn:eudi:pid:1",
			[][][]string{{overPath, bornPath}, {bornPath}, {{"age_equal_or_over", "25"}, bornPath},
				{{"nationalities"}}},
			w.present(nil), stale)
		if *update && curve == elliptic.P256() {
			b, err := json.MarshalIndent(recorded{w.issuer.Root.Raw, got.Theirs[0]}, "", "\t")
			if err == nil {
				err = os.WriteFile(recordedFile, append(b, '\n'), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for n, want := range []struct{ over, born bool }{{true, false}, {false, true}, {false, true},
			{false, false}} {
			p, err := sdjwt.Verify(t.Context(), got.Theirs[n], w.ask())
			if err != nil {
				t.Errorf("contract 39: %s: presentation %d: %v", curve.Params().Name, n, err)
				continue
			}
			over, _ := p.Claims[0].Bool()
			date, born := p.Claims[1].Text()
			if over != want.over || born != want.born || born && date != "1986-02-28" ||
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
