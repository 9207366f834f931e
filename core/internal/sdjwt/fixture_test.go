package sdjwt_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/core/internal/sdjwt"
	"github.com/verge-id/verge/edge/signing"
	"github.com/verge-id/verge/testharness/wallettest"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

const (
	client = "x509_san_dns:verge.example"
	nonce  = "bm9uY2Utb2YtYS1yZXF1ZXN0"
)

var (
	overPath = []string{"age_equal_or_over", "18"}
	bornPath = []string{"birthdate"}
)

// fixture is an issuer, a wallet with its document, and the request that it answers.
type fixture struct {
	testing.TB
	issuer, stranger *wallettest.Issuer
	wallet           *wallettest.Wallet
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	w := &fixture{TB: t}
	w.issuer = wallettest.NewIssuer(wallettest.IssuerConfig{Now: now, Between: 1})
	w.stranger = wallettest.NewIssuer(wallettest.IssuerConfig{Now: now})
	w.wallet = wallettest.New(w.issuer)
	w.wallet.Now = func() time.Time { return now }
	return w
}

// ask returns the request, for a document of the issuer.
func (w *fixture) ask() sdjwt.Ask {
	w.Helper()
	anchors, err := mdoc.ParseAnchors(w.issuer.PEM())
	if err != nil {
		w.Fatal(err)
	}
	return sdjwt.Ask{Types: []string{"urn:eudi:pid:"}, Claims: [][]string{overPath, bornPath},
		Audience: client, Nonce: nonce, Issuers: mdoc.Ask{EKU: []string{wallettest.AgeSigner},
			Anchors: anchors, Now: now, Verify: signing.Verify, Issued: new(mdoc.Issued)}}
}

// change is a change of a document or of its key binding, before they are signed.
type change func(p *wallettest.Presentation)

// present returns the wallet's answer.
func (w *fixture) present(changes ...change) string {
	w.Helper()
	p, err := w.wallet.Presentation(wallettest.Session{}, "", "", nil)
	if err != nil {
		w.Fatal(err)
	}
	p.SDJWT = &wallettest.SDJWT{Type: "urn:eudi:pid:de:1", Claims: w.wallet.Claims,
		Disclose: [][]string{overPath}, Audience: client, Nonce: nonce, Bound: now}
	for _, change := range changes {
		if change != nil {
			change(p)
		}
	}
	text, err := p.Token()
	if err != nil {
		w.Fatal(err)
	}
	return text
}

// why returns the reason of a rejection, and "" for no error. A fault of the document is behind a slash.
func (w *fixture) why(err error) string {
	w.Helper()
	var rejection *mdoc.Rejection
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &rejection):
		w.Errorf("an error of another type: %v", err)
		return "?"
	case rejection.Document != "":
		return rejection.Reason + "/" + string(rejection.Document)
	}
	return rejection.Reason
}

// edit changes a token.
func edit(token wallettest.Part, how func(header, claims map[string]any)) change {
	return func(p *wallettest.Presentation) {
		before := p.SDJWT.Edit
		p.SDJWT.Edit = func(of wallettest.Part, header, claims map[string]any) {
			if before != nil {
				before(of, header, claims)
			}
			if of == token {
				how(header, claims)
			}
		}
	}
}

func header(name string, value any) change {
	return edit(wallettest.PartSDJWT, func(header, _ map[string]any) { put(header, name, value) })
}

func claim(name string, value any) change {
	return edit(wallettest.PartSDJWT, func(_, claims map[string]any) { put(claims, name, value) })
}

func bindingHeader(name string, value any) change {
	return edit(wallettest.PartBinding, func(header, _ map[string]any) { put(header, name, value) })
}

func binding(name string, value any) change {
	return edit(wallettest.PartBinding, func(_, claims map[string]any) { put(claims, name, value) })
}

// put sets a member. Nil removes it.
func put(o map[string]any, name string, value any) {
	if o[name] = value; value == nil {
		delete(o, name)
	}
}

// hidden adds disclosures whose digests are at the top of the token.
func hidden(disclosures ...string) change {
	return func(p *wallettest.Presentation) {
		edit(wallettest.PartSDJWT, func(_, claims map[string]any) {
			for _, text := range disclosures {
				claims["_sd"] = append(claims["_sd"].([]string), wallettest.Digest(text))
			}
		})(p)
		sent(func(all []string) []string { return append(all, disclosures...) })(p)
	}
}

// sent changes the disclosures that are sent.
func sent(how func([]string) []string) change {
	return func(p *wallettest.Presentation) {
		before := p.SDJWT.EditDisclosures
		p.SDJWT.EditDisclosures = func(all []string) []string {
			if before != nil {
				all = before(all)
			}
			return how(all)
		}
	}
}

// nested returns the disclosures of n objects, each in the next one.
func nested(n int) (all []string) {
	value := any(true)
	for range n {
		text := wallettest.Disclosure("salt", "a", value)
		all = append(all, text)
		value = map[string]any{"_sd": []string{wallettest.Digest(text)}}
	}
	return all
}

// inside adds disclosures below the first, whose digest is at the top.
func inside(all []string) change {
	return func(p *wallettest.Presentation) {
		hidden(all[len(all)-1])(p)
		sent(func(before []string) []string { return append(before, all[:len(all)-1]...) })(p)
	}
}

func repeat(text string, n int) []string { return strings.Fields(strings.Repeat(text+" ", n)) }
