package operate

import (
	"slices"
	"testing"
	"time"

	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/lifecycle"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

// An unused result is known to be unused while its token is valid, even after the session's 10 minutes.
func TestSession_ResultUsed(t *testing.T) {
	w := newFixture(t)
	i, err := w.Directory.Integration(ctx, intA)
	coretest.Must(t, err)
	id, err := session.NewID(w.Host.Random, intA, session.L1, 25, w.Clock.Now(), 0)
	coretest.Must(t, err)
	text, err := id.Format(w.Host.Sealer)
	coretest.Must(t, err)
	w.Clock.Advance(session.Life - time.Minute)
	_, err = w.Lifecycle.Fire(ctx, lifecycle.Session{ID: id, Text: text, Integration: i},
		lifecycle.Step{Trigger: session.Succeeded})
	coretest.Must(t, err)
	for _, c := range []struct {
		after time.Duration
		known bool
	}{{0, true}, {token.ResultLife - time.Millisecond, true}, {time.Millisecond, false}} {
		w.Clock.Advance(c.after)
		s, err := w.Session(ctx, viewer, text)
		coretest.Must(t, err)
		if (s.ResultUsed != nil) != c.known || c.known && *s.ResultUsed {
			t.Errorf("contract 17: result_used is %v, want known: %v", s.ResultUsed, c.known)
		}
	}
}

// A configuration that is applied in part is in the audit, with its operator.
func TestApplySite_PartialFailure(t *testing.T) {
	w := newFixture(t)
	commits := 0
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Commit" {
			if commits++; commits == 2 {
				return kvtest.Reject
			}
		}
		return kvtest.Pass
	}
	site := []byte(`{"publishers":[{"id":"pub_f","name":"File"},{"id":"pub_g","name":"File"}],` +
		`"integrations":[]}`)
	if _, err := w.ApplySite(ctx, operator, site); err == nil {
		t.Fatal("the second write succeeds")
	}
	all, err := w.Audit(ctx, operator, "", Cursor{})
	coretest.Must(t, err)
	if !slices.ContainsFunc(all.Items, func(e AuditEntry) bool {
		return e.Operation == siteApply && e.ActorID == operator.ID
	}) {
		t.Errorf("contract 42: the audit has %+v", all.Items)
	}
}
