package openid4vp_test

import (
	"context"
	"encoding/pem"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/openid4vp"
	"github.com/verge-id/verge/testharness/wallettest"
)

// stored are the lists of a store, by name.
type stored struct {
	lists map[string][][]byte
	err   error
	asked int
}

func (s *stored) Anchors(_ context.Context, of string, l method.TrustList) (method.ListedAnchors, error) {
	s.asked++
	if s.err != nil {
		return method.ListedAnchors{}, s.err
	}
	certificates, ok := s.lists[l.Name]
	if !ok || of != "wallet" {
		return method.ListedAnchors{}, method.ErrNoList
	}
	var content strings.Builder
	for _, c := range certificates {
		content.Write(c)
	}
	return method.ListedAnchors{Certificates: certificates, Content: content.String()}, nil
}

// listed opens a method without anchors, with two lists.
func listed(t *testing.T, s *stored) *fixture {
	t.Helper()
	c := config(t, "eu-av", settings{"trust_anchors": nil,
		"trust_lists": []any{list(nil), list(settings{"name": "eu"})}})
	return newFixtureWith(t, c, s)
}

// list is a trusted list with good settings, and with changes.
func list(changes settings) settings {
	l := settings{"url": "https://lists.example/eu.xml", "format": "etsi-ts-119612",
		"signers": []string{string(issuers["mdl"].PEM())}}
	maps.Copy(l, changes)
	maps.DeleteFunc(l, func(_ string, v any) bool { return v == nil })
	return l
}

// lists are the settings with one list instead of the anchors.
func lists(changes settings) settings {
	return settings{"trust_anchors": nil, "trust_lists": []any{list(changes)}}
}

// Each mistake in a list is reported once (contract 53).
func TestSettings_Lists(t *testing.T) {
	anchor := string(issuers["eu-av"].PEM())
	private := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte{1}}))
	checkSettings(t, []settingsCase{
		{"a list instead of anchors", "eu-av", lists(nil), "", ""},
		{"a list and anchors", "eu-av", settings{"trust_lists": lists(nil)["trust_lists"]}, "", ""},
		{"no lists", "eu-av", settings{"trust_lists": []any{}}, "trust_lists", "not empty"},
		{"a text for lists", "eu-av", settings{"trust_lists": "a"}, "trust_lists", "a list of tables"},
		{"a text for a list", "eu-av", settings{"trust_lists": []any{"a"}}, "trust_lists.1", "a table"},
		{"nine lists", "eu-av", settings{"trust_lists": make([]settings, 9)}, "trust_lists", "at most 8"},
		{"two lists of one name", "eu-av", settings{"trust_lists": []any{list(nil), list(nil),
			list(settings{"name": "1"})}}, "trust_lists.3.name", "two lists"},
		{"a list's unknown setting", "eu-av", lists(settings{"ca": "a"}), "trust_lists.1.ca", "use only"},
		{"a list's name", "eu-av", lists(settings{"name": "EU/1"}), "trust_lists.1.name", "lower case"},
		{"an empty name", "eu-av", lists(settings{"name": ""}), "trust_lists.1.name", "lower case"},
		{"a long name", "eu-av", lists(settings{"name": strings.Repeat("a", 33)}), "trust_lists.1.name",
			"32"},
		{"no address", "eu-av", lists(settings{"url": nil}), "trust_lists.1.url", "either"},
		{"address and file", "eu-av", lists(settings{"file": "a"}), "trust_lists.1.url", "either"},
		{"an address over http", "eu-av", lists(settings{"url": "http://lists.example/"}),
			"trust_lists.1.url", "https"},
		{"a file", "eu-av", lists(settings{"url": nil, "file": "/etc/verge/list.xml"}), "", ""},
		{"a file with a line break", "eu-av", lists(settings{"url": nil, "file": "a\nb"}),
			"trust_lists.1.file", "path"},
		{"a long path", "eu-av", lists(settings{"url": nil, "file": strings.Repeat("a", 1025)}),
			"trust_lists.1.file", "1024"},
		{"no format", "eu-av", lists(settings{"format": nil}), "trust_lists.1.format", "etsi-ts-119612"},
		{"an unknown format", "eu-av", lists(settings{"format": "xml"}), "trust_lists.1.format", "vical"},
		{"no signers", "eu-av", lists(settings{"signers": nil}), "trust_lists.1.signers", "PEM files"},
		{"an empty list of signers", "eu-av", lists(settings{"signers": []string{}}),
			"trust_lists.1.signers", "PEM files"},
		{"a number as signer", "eu-av", lists(settings{"signers": []int{1}}), "trust_lists.1.signers",
			"PEM files"},
		{"a private key as signer", "eu-av", lists(settings{"signers": []string{private}}),
			"trust_lists.1.signers", "PRIVATE KEY"},
		{"17 signers", "eu-av", lists(settings{"signers": []string{strings.Repeat(anchor, 17)}}),
			"trust_lists.1.signers", "at most 16"},
		{"grace in days", "eu-av", lists(settings{"grace": "14d"}), "", ""},
		{"grace in hours", "eu-av", lists(settings{"grace": "36h"}), "", ""},
		{"no grace", "eu-av", lists(settings{"grace": "0s"}), "", ""},
		{"91 days of grace", "eu-av", lists(settings{"grace": "91d"}), "trust_lists.1.grace", "90 days"},
		{"a negative grace", "eu-av", lists(settings{"grace": "-1h"}), "trust_lists.1.grace", "90 days"},
		{"a negative grace in days", "eu-av", lists(settings{"grace": "-1d"}), "trust_lists.1.grace", ""},
		{"a number as grace", "eu-av", lists(settings{"grace": 7}), "trust_lists.1.grace", "7d"},
	})
}

func TestLists_Anchors(t *testing.T) {
	issuer := issuers["eu-av"]
	for _, c := range []struct {
		name  string
		lists map[string][][]byte
		want  string // the reason of the rejection
	}{
		{"the root is listed", map[string][][]byte{"1": {issuer.Root.Raw}}, ""},
		{"the root is in the second list", map[string][][]byte{"1": {}, "eu": {issuer.Root.Raw}}, ""},
		{"the signer is listed", map[string][][]byte{"1": {issuer.Chain[0]}}, ""},
		{"another root is listed", map[string][][]byte{"1": {issuers["mdl"].Root.Raw}}, "untrusted"},
	} {
		t.Run("contract 53: "+c.name, func(t *testing.T) {
			s := &stored{lists: map[string][][]byte{"1": {issuer.Root.Raw}}}
			w := listed(t, s)
			s.lists = c.lists
			kept, err := w.send(w.message(w.shows().Code))
			if err != nil {
				t.Fatal(err)
			}
			d := w.act(nil, kept)
			if c.want != "" {
				if d.Verdict != method.AttemptFailed || d.Rejection == nil || d.Rejection.Reason != c.want ||
					d.Setting != "trust_lists" {
					t.Errorf("%+v, %+v; want %s", d, d.Rejection, c.want)
				}
				return
			}
			if d.Verdict != method.Approved {
				t.Errorf("%+v", d)
			}
			w.wantTrust(d.Trust, true)
			s.lists = map[string][][]byte{"1": {}}
			w.wantTrust(d.Trust, false)
		})
	}
}

func (w *fixture) wantTrust(anchor string, want bool) {
	w.Helper()
	got, err := w.method.(method.Truster).Trusts(w.Context(), anchor)
	if got != want || err != nil {
		w.Errorf("contract 34, 53: trusted %v, %v; want %v", got, err, want)
	}
}

// After an error of the store nothing is known: no response is rejected or kept, and no verdict counts.
func TestLists_StoreError(t *testing.T) {
	s := &stored{lists: map[string][][]byte{"1": {issuers["eu-av"].Root.Raw}}}
	w := listed(t, s)
	message := w.message(w.shows().Code)
	s.err = kv.ErrUnavailable
	kept, err := w.send(message)
	if rejection := (*method.Rejection)(nil); kept != nil || !kv.Failed(err) || errors.As(err, &rejection) {
		t.Errorf("contract 53: an answer: %q, %v", kept, err)
	}
	form := w.inBrowser(service)
	d, err := w.method.Act(t.Context(), w.session, method.Step{Form: form, State: w.state})
	if d.Verdict != method.Unclassified || !kv.Failed(err) {
		t.Errorf("contract 53: a response through the browser: %+v, %v", d, err)
	}
	if ok, err := w.method.(method.Truster).Trusts(t.Context(), w.anchor()); ok || !kv.Failed(err) {
		t.Errorf("contract 53: a kept verdict: %v, %v", ok, err)
	}
	if err := w.method.Begin(t.Context(), w.session); !kv.Failed(err) {
		t.Errorf("contract 53: begin: %v", err)
	}
	s.err = nil
	if _, err := w.send(message); err != nil {
		t.Errorf("the same answer, after the store has come back: %v", err)
	}
}

// The grace of the only list ends while a user waits. Nothing is decided, and no attempt is spent.
func TestLists_EndWhileWaiting(t *testing.T) {
	s := &stored{lists: map[string][][]byte{"1": {issuers["eu-av"].Root.Raw}}}
	w := listed(t, s)
	message, form := w.message(w.shows().Code), w.inBrowser(service)
	s.lists = nil
	kept, err := w.send(message)
	var failed *host.FetchError
	if kept != nil || !errors.As(err, &failed) {
		t.Errorf("contract 53: an answer: %q, %v", kept, err)
	}
	d, err := w.method.Act(t.Context(), w.session, method.Step{Form: form, State: w.state})
	if d.Verdict != method.Unclassified || !errors.As(err, &failed) {
		t.Errorf("contract 53: a response through the browser: %+v, %v", d, err)
	}
}

// Without an anchor that counts, the method cannot begin.
func TestLists_Begin(t *testing.T) {
	issuer := wallettest.NewIssuer(wallettest.IssuerConfig{Now: noon})
	s := &stored{lists: map[string][][]byte{"1": {issuer.Root.Raw}}}
	w := listed(t, s)
	for name, lists := range map[string]map[string][][]byte{
		"no list": nil, "an empty list": {"1": {}}, "nothing that can be used": {"1": {{0x30, 0}}},
	} {
		s.lists = lists
		err := w.method.Begin(t.Context(), w.session)
		if method.ReasonOf(err) != "trust_lists" {
			t.Errorf("contract 53: %s: %v", name, err)
		}
	}
	s.asked = 0
	c := config(t, "eu-av", settings{"trust_lists": []any{list(nil)}})
	w = newFixtureWith(t, c, s)
	if err := w.method.Begin(t.Context(), w.session); err != nil || s.asked > 0 {
		t.Errorf("with a configured anchor: %v; the store is asked %d times", err, s.asked)
	}
	w.wantTrust(w.anchor(), true)
	if s.asked > 0 {
		t.Error("the store is asked for an anchor of the settings")
	}
}

// The lists of a method are for its documents, and have names.
func TestKindLists(t *testing.T) {
	c := config(
		t,
		"eu-av",
		settings{"trust_lists": []any{list(nil), list(settings{"name": "eu", "grace": "3d"})}},
	)
	all := openid4vp.Kind.Lists(c)
	if len(all) != 2 || all[0].Name != "1" || all[0].Grace != 7*24*time.Hour || all[1].Name != "eu" ||
		all[1].Grace != 3*24*time.Hour || all[1].DocType != "eu.europa.ec.av.1" || len(all[1].Signers) != 1 {
		t.Errorf("%+v", all)
	}
	if !openid4vp.Kind.IsAnchor(issuers["eu-av"].Root.Raw) || openid4vp.Kind.IsAnchor([]byte{1}) {
		t.Error("contract 53: the wrong certificates are used")
	}
}
