package transcript

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/wasm/abi"
	"github.com/verge-id/verge/wasm/effect"
	"github.com/verge-id/verge/wasm/settings"
)

// The host's signatures differ each time, so a replay returns the recorded ones. A core's events of methods
// are compared like other notices.
func TestReplay_Signatures(t *testing.T) {
	at := time.Date(2026, 11, 20, 22, 10, 0, 0, time.UTC)
	signed := 0
	config := settings.Config{
		Config: core.Config{BaseURL: "https://verge.example", Test: true},
		Host:   "verge.example",
		Keyring: []byte(`{"version":1,"keys":[{"id":"9f02ab31",` +
			`"secret":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8","created":"2026-11-20T22:10:00Z"}]}`),
	}
	r, err := NewRecorder(config, at, func(k abi.Kind, body []byte) (abi.Status, []byte) {
		q, err := abi.Read.Sign(body)
		if k != abi.Sign || err != nil {
			t.Errorf("an effect of kind %d: %v", k, err)
		}
		if q.Key != "client" {
			return abi.NotFound, nil
		}
		signed++
		return abi.OK, []byte{'s', 'i', 'g', 0xff, byte(signed)}
	})
	if err != nil {
		t.Fatal(err)
	}

	// The core of this test represents any core that signs during a request.
	ctx := context.Background()
	core := func(s *stage) (first, second []byte, none error) {
		sign := effect.Signer(s.effect).Sign
		first, _ = sign(ctx, "client", "ES256", []byte("message"))
		s.Measure(host.Measurement{Method: "bankid", Event: "left", Took: time.Second})
		second, _ = sign(ctx, "client", "ES256", []byte("message"))
		_, none = sign(ctx, "another", "ES256", []byte("message"))
		return first, second, none
	}
	one, two, none := core(r.stage)
	if bytes.Equal(one, two) || signed != 2 || !errors.Is(none, host.ErrNoSuchKey) {
		t.Fatalf("recorded %x, %x, %v", one, two, none)
	}
	step := *r.step
	step.Name, step.Now, step.Entry = "sign", at, abi.Ready
	step.Answer = abi.Append.Outcome(nil, abi.Outcome{})
	r.Steps = append(r.Steps, step)
	var text bytes.Buffer
	if err := r.Write(&text); err != nil {
		t.Fatal(err)
	}
	again, err := Read(&text)
	if err != nil || len(again.Steps) != 1 || len(again.Steps[0].Events) != 4 {
		t.Fatalf("%+v, %v", again, err)
	}
	for n, want := range []string{
		"sign ES256 with client: done",
		"measure Method: bankid, Event: left",
		"sign ES256 with client: done",
		"sign ES256 with another: not found",
	} {
		if got := again.Steps[0].Events[n].line(); got != want {
			t.Errorf("event %d is shown as %q, want %q", n+1, got, want)
		}
	}

	p := &player{step: &again.Steps[0], sum: &Summary{}}
	s := &stage{effect: p.effect, notice: p.notice}
	one2, two2, none := core(s)
	d := p.end(step.Answer, nil)
	if d != nil || !bytes.Equal(one2, one) || !bytes.Equal(two2, two) ||
		!errors.Is(none, host.ErrNoSuchKey) || signed != 2 {
		t.Errorf("replayed %x, %x, %v, %v; %d signatures in total", one2, two2, none, d, signed)
	}

	p = &player{step: &again.Steps[0], sum: &Summary{}}
	_, err = effect.Signer(p.effect).Sign(ctx, "client", "ES256", []byte("another message"))
	if err == nil || p.end(nil, nil) == nil {
		t.Errorf("another message was signed: %v", err)
	}
}

// A replay returns the recorded verdict about a signature, and a core that verifies another one differs.
func TestReplay_Verifications(t *testing.T) {
	ask := func(signature string) []byte {
		return abi.Append.Verify(nil, abi.VerifyRequest{Algorithm: "ES256", PublicKey: []byte("key"),
			Message: []byte("message"), Signature: []byte(signature)})
	}
	recorded := Step{Events: []Event{
		{Kind: abi.Verify, Body: ask("good"), Status: abi.OK, Reply: abi.Append.Verified(nil, true)},
		{Kind: abi.Verify, Body: ask("bad"), Status: abi.OK, Reply: abi.Append.Verified(nil, false)},
	}}
	if got := recorded.Events[0].line(); got != "verify ES256: done" {
		t.Errorf("shown as %q", got)
	}
	for _, c := range []struct {
		name   string
		second string
		same   bool
	}{
		{"the same signatures", "bad", true},
		{"another signature", "other", false},
	} {
		p := &player{step: &recorded, sum: &Summary{}}
		verify := effect.Verifier(p.effect).Verify
		first, err := verify(t.Context(), "ES256", []byte("key"), []byte("message"), []byte("good"))
		if !first || err != nil {
			t.Errorf("%s: %v, %v", c.name, first, err)
		}
		second, err := verify(t.Context(), "ES256", []byte("key"), []byte("message"), []byte(c.second))
		if second || (err == nil) != c.same || (p.end(nil, nil) == nil) != c.same {
			t.Errorf("%s: %v, %v", c.name, second, err)
		}
	}
}
