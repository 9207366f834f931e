package openid4vp_test

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/openid4vp"
)

// If the host cannot check a signature, a wallet's response is neither accepted nor rejected: the wallet may
// send it again (contract 39, 41).
func TestResponse_HostError(t *testing.T) {
	away := errors.New("away")
	w := newFixture(t, config(t, "eu-av", nil))
	working := w.method
	m, err := openid4vp.Kind.Open(config(t, "eu-av", nil), method.Host{
		Now: func() time.Time { return noon }, Random: rand.Reader, Sign: sign,
		Verify: func(context.Context, string, []byte, []byte, []byte) (bool, error) { return true, away }})
	if err != nil {
		t.Fatal(err)
	}
	message := w.message(w.shows().Open)
	form := w.inBrowser(service)

	w.method = m.(method.Requester)
	kept, err := w.send(message)
	var rejection *method.Rejection
	if !errors.Is(err, away) || errors.As(err, &rejection) || len(kept) > 0 {
		t.Errorf("posted: %q, %v", kept, err)
	}
	w.session.ResponseURI = ""
	d, err := w.method.Act(t.Context(), w.session, method.Step{Form: form, State: w.state})
	if !errors.Is(err, away) || errors.As(err, &rejection) || d.Verdict != 0 {
		t.Errorf("by the browser: %+v, %v", d, err)
	}
	w.session.ResponseURI = box

	w.method = working
	if kept, err = w.send(message); err != nil {
		t.Fatalf("again: %v", err)
	}
	if d := w.act(nil, kept); d.Verdict != method.Approved {
		t.Errorf("again: %+v", d)
	}
}
