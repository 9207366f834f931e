package oidc_test

import (
	"context"
	"crypto/rsa"
	"errors"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/edge/signing"
	"github.com/verge-id/verge/testharness/oidctest"
)

// If the host cannot check the signature of an ID token, nothing is decided, and the keys are not fetched
// again, as after a signature that is not the key's (contract 36, 41).
func TestIDToken_HostError(t *testing.T) {
	w := newWalk(t, oidctest.Config{}, nil)
	away := errors.New("away")
	asked := 0
	w.host.Verify = func(context.Context, string, []byte, []byte, []byte) (bool, error) {
		asked++
		return true, away
	}
	w.open()
	d, err := w.login()
	var rejection *method.Rejection
	if !errors.Is(err, away) || errors.As(err, &rejection) || d.Verdict != 0 || asked != 1 {
		t.Errorf("%+v, %v, asked %d times", d, err, asked)
	}
	if n := w.provider.Count(oidctest.KeysPath); n != 1 {
		t.Errorf("the key set was fetched %d times", n)
	}
	w.host.Verify = signing.Verify
	w.open()
	d, err = w.login()
	wantVerdict(t, "later", d, err, method.Approved)
}

// One token costs two verifications at most: by the stored key, and by its replacement.
func TestIDToken_Verifications(t *testing.T) {
	f := newForger(t)
	asked := 0
	f.host.Verify = func(
		ctx context.Context, algorithm string, key, message, signature []byte,
	) (bool, error) {
		asked++
		return signing.Verify(ctx, algorithm, key, message, signature)
	}
	f.open()
	for _, c := range []struct {
		name string
		edit func(string) string
		most int
	}{
		{"a signature cut by a byte", func(token string) string { return token[:len(token)-2] }, 0},
		{"a forged signature", func(token string) string {
			return token[:strings.LastIndexByte(token, '.')+1] + raw64(make([]byte, 64))
		}, 2},
	} {
		asked = 0
		f.check(t, []forgery{{c.name, c.edit, "jwt_signature"}})
		if asked > c.most {
			t.Errorf("%s: %d verifications, want %d at most", c.name, asked, c.most)
		}
	}
}

// RFC 7518, 3.5: the salt of PS256 is as long as the hash. WebCrypto verifies no other.
func TestIDToken_SaltOfPS256(t *testing.T) {
	w := newWalk(t, oidctest.Config{Clients: []oidctest.Client{{ID: clientID, Secret: secret,
		Algorithm: "PS256"}}}, nil)
	f := &forger{walk: w}
	f.rsID, f.rsKey = w.provider.Key("PS256")
	header := `{"alg":"PS256","kid":"` + f.rsID + `"}`
	short := *jwt.SigningMethodPS256
	short.Options = &rsa.PSSOptions{SaltLength: 20}
	f.check(t, []forgery{
		{"32 bytes", f.header(header, jwt.SigningMethodPS256, f.rsKey), ""},
		{"20 bytes", f.header(header, &short, f.rsKey), "jwt_signature"},
	})
}
