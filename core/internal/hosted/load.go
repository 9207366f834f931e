package hosted

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/lifecycle"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/web"
)

// loadIntegration finds the session's integration and its methods.
func (v *visit) loadIntegration() (err error) {
	v.session.Integration, err = v.Directory.Integration(v.ctx, v.session.ID.Integration)
	if err == nil {
		v.requestInfo(v.ctx, v.session)
		v.findOffers()
		err = v.loadPublisher()
	}
	return err
}

// findOffers finds the integration's methods.
func (v *visit) findOffers() {
	v.offers = nil
	for _, name := range v.session.Integration.Offers() {
		if m, ok := v.Methods[name]; ok && (v.phone == nil || name == v.phone.Method) {
			v.offers = append(v.offers, m)
		}
	}
}

// offered returns the integration's method of that name. "" is its first one.
func (v *visit) offered(name string) (method.Opened, bool) {
	for _, m := range v.offers {
		if m.Name == name || name == "" {
			return m, true
		}
	}
	return method.Opened{}, false
}

// isBound reports whether a method's proof belongs to one browser.
func isBound(m method.Opened) bool { return !m.Of.Sandbox }

// onlySandbox reports whether all methods of the integration are sandboxes.
func (v *visit) onlySandbox() bool {
	return len(v.offers) > 0 && !slices.ContainsFunc(v.offers, isBound)
}

// checkOffers returns an error if the configuration has none of the integration's methods, because it was
// changed, or because another instance has the newer configuration. For a phone, lookAt decides.
func (v *visit) checkOffers() error {
	if len(v.offers) > 0 || v.phone != nil {
		return nil
	}
	return fmt.Errorf("hosted: this service has no method of integration %s: %s", v.session.Integration.ID,
		strings.Join(v.session.Integration.Offers(), ", "))
}

// refresh reads the integration as it is now. An earlier verdict is compared with that, because the cache may
// be as old as the verdict (contract 34).
func (v *visit) refresh() error {
	now, err := v.Directory.ReadIntegration(v.ctx, v.session.ID.Integration)
	if err != nil {
		return err
	}
	v.session.Integration = &now.Value
	v.findOffers()
	return v.checkOffers()
}

// requestInfo reports the session that a request is about.
func (h *Hosted) requestInfo(ctx context.Context, s lifecycle.Session) {
	h.About(ctx, host.RequestInfo{Session: s.Text, Integration: s.Integration.ID,
		Publisher: s.Integration.PublisherID})
}

// load reads the session's record as it holds now. An ended session needs no method.
func (v *visit) load() (err error) {
	v.record, v.version, err = v.Lifecycle.Load(v.ctx, v.session.ID)
	v.record = v.record.As(v.now, v.session.ID.Expires())
	if err == nil && !v.record.Terminal() {
		err = v.checkOffers()
	}
	if err == nil && v.phone == nil && v.record.HandOff != "" && v.acts() {
		return v.settle()
	}
	return err
}

// settle applies a rejection that a phone has brought, and loads the record again. An approval belongs to the
// browser that waits for it. An outdated verdict ends the hand-off (contract 34).
func (v *visit) settle() error {
	brought, err := v.Lifecycle.Pending(v.ctx, token.Pending{HandOff: v.record.HandOff})
	if errors.Is(err, lifecycle.ErrNoPending) {
		return nil
	}
	if err != nil || v.record.Terminal() || !brought.Done || brought.Attempt != v.record.Attempts {
		return err
	}
	if err := v.refresh(); err != nil {
		return err
	}
	d := brought.Outcome()
	switch m, ok := v.offered(brought.Method); {
	case !ok:
		err = errGone
	case v.isHere(m):
		err = errHere
	default:
		err = m.Holds(v.ctx, v.sessionFor(m), d)
	}
	if errors.Is(err, method.ErrOutdated) {
		v.outdated = true
		v.stepEnded(lifecycle.WhyFailed(brought.Method, err), err)
		v.record, err = v.Lifecycle.Discard(v.ctx, v.session, brought.Pending)
		return err
	}
	if err != nil {
		return err
	}
	if v.judged = true; d.Verdict == method.Approved {
		return nil
	}
	v.brought = d.Reason
	trigger, _ := triggerOf(d.Verdict)
	step := lifecycle.Step{Trigger: trigger, Attempt: brought.Attempt,
		Entry: entryOf(brought.Method, d)}
	if _, err := v.Lifecycle.Fire(v.ctx, v.session, step); err != nil {
		return err
	}
	v.record, v.version, err = v.Lifecycle.Load(v.ctx, v.session.ID)
	v.record = v.record.As(v.now, v.session.ID.Expires())
	return err
}

// sessionFor returns the visit's session as a method sees it.
func (v *visit) sessionFor(m method.Opened) method.Session {
	s := v.session.ForMethod(m.Name, v.lang, v.record.Attempts, v.BaseURL+web.ReturnPath+m.Name)
	s.ResponseURI = v.responseURI
	return s
}

// shows returns the page of a method's step.
func (v *visit) shows(m method.Opened, s token.StepClaims) method.View {
	return m.Show(v.sessionFor(m), s.State)
}

// isHere reports whether no phone may do the step of a method. The operator can change that at any time.
func (v *visit) isHere(m method.Opened) bool { return v.shows(m, token.StepClaims{}).Here }
