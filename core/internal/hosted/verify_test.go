package hosted

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/edge/signing"
)

// While the host cannot verify signatures, a passkey's form returns 503, and the passkey and the session are
// unchanged (contract 38, 41).
func TestPasskey_HostCannotVerify(t *testing.T) {
	w := passkeyFixture(t)
	w.has()
	flow := w.session(session.L1, 25)
	page := w.get(here(flow))
	form := w.uses(page)
	w.Passkeys.Verify = func(context.Context, string, []byte, []byte, []byte) (bool, error) {
		return true, errors.New("no engine verifies")
	}
	if r := w.send(form, nil); r.Status != 503 {
		t.Errorf("the form returns %d", r.Status)
	}
	if r := w.record(flow); r.Terminal() || r.Attempts != 0 {
		t.Errorf("the session is %+v", r)
	}
	w.Clock.Advance(time.Second)
	w.Passkeys.Verify = signing.Verify
	w.send(w.uses(w.get(here(flow))), nil)
	if r := w.record(flow); r.State != session.Completed {
		t.Errorf("later the session is %+v", r)
	}
}
