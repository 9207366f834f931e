package estimator_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/method/estimator"
)

// TestProbe: the output of verge method check for an estimator.
func TestProbe(t *testing.T) {
	for _, c := range []struct {
		rule, profile string
		arrange       func(w *fixture)
		says          string
		good          bool
	}{
		{"plain: it rejects a request without a picture", "plain", nil, "(status 400), as expected", true},
		{"yoti: it rejects a request without a picture", "yoti", nil, "(status 400), as expected", true},
		{"plain: another token", "plain", func(w *fixture) { w.config.Secrets["token"] = "another" },
			"it does not accept a bearer token", false},
		{"yoti: a clock that is wrong", "yoti", func(w *fixture) { w.now = noon.AddDate(1, 0, 0) },
			"it does not accept a signature", false},
		{"plain: another address", "plain", func(w *fixture) {
			w.change = func(r *host.FetchRequest) { r.URL += "/elsewhere" }
		}, "correct url", false},
		{"plain: it estimates nothing", "plain",
			func(w *fixture) { w.answer(200, `{"age":30,"deviation":2,"live":true}`) },
			"do not use it", false},
		{"plain: it sees no face", "plain",
			func(w *fixture) { w.answer(200, `{"face":false}`) }, "accepts a bearer", true},
		{"plain: a response of another program", "plain", func(w *fixture) { w.answer(200, `<html>`) },
			"profile and url belong together", false},
		{"plain: it fails", "plain", func(w *fixture) { w.answer(500, ``) }, "check its log", false},
		{"plain: too many requests", "plain",
			func(w *fixture) { w.answer(429, ``) }, "raise the limit", false},
		{"plain: an account that is not paid", "plain",
			func(w *fixture) { w.answer(402, ``) }, "asks for a payment", false},
		{"plain: a redirect", "plain", func(w *fixture) { w.answer(302, ``) }, "correct url", false},
	} {
		t.Run(c.rule, func(t *testing.T) {
			w := newFixture(t, c.profile)
			if c.arrange != nil {
				c.arrange(w)
			}
			r, err := estimator.Probe(context.Background(), w.config, w.host, "")
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Findings) != 1 || r.Findings[0].Good != c.good ||
				!strings.Contains(r.Findings[0].Text, c.says) {
				t.Errorf("it says %+v, want %q", r.Findings, c.says)
			}
			if len(r.Facts) < 4 || r.Facts[0].Name != "address" {
				t.Errorf("the facts are %+v", r.Facts)
			}
		})
	}
}

// answer has every request answered so.
func (w *fixture) answer(status int, body string) {
	w.host.Fetch = constant{host.FetchResponse{Status: status, Body: []byte(body)}}
}

// TestProbeFails: an estimator that cannot be asked is an error with the reason.
func TestProbeFails(t *testing.T) {
	w := newFixture(t, "plain")
	w.fetchErr = &host.FetchError{Reason: host.FetchTLS, Err: errors.New("canary")}
	_, err := estimator.Probe(context.Background(), w.config, w.host, "")
	var failed *host.FetchError
	if !errors.As(err, &failed) || failed.Reason != host.FetchTLS || strings.Contains(err.Error(), "canary") {
		t.Errorf("it fails with %v", err)
	}
	w.config.Settings = nil
	if r, err := estimator.Probe(context.Background(), w.config, w.host, ""); err == nil {
		t.Errorf("no settings: %+v", r)
	}
}
