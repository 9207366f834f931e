package workers_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/testharness/wait"
	"github.com/verge-id/verge/testharness/workerd"
)

// A new module over the same storage: sessions in progress continue, results count once, and the timers and
// the retries of before fire by alarms. In the long run the new module has one more kind of method, and the
// new configuration uses it.
func TestModuleUpgrade(t *testing.T) {
	again := long.Pick(t, "TestModuleUpgrade", sameModule, largerModule)
	newer, methods := again(t)
	server := workerd.Start(t, &workerd.Options{Other: newer})
	in := newInbox(t)
	in.answer(http.StatusInternalServerError)
	c := withRing(t, workerd.Config{Guest: retrying(15*time.Minute, time.Hour), Offset: -24 * time.Hour})
	s, site := newSiteOn(t, server, in, c)
	pending, redirect := s.start()
	left, _ := s.start()
	done, back := s.start()
	result := s.approve(back)
	attempt := func(id, event string, statuses ...int) {
		t.Helper()
		wait.Until(t, event, func() bool { return slices.Equal(in.statuses(id, event), statuses) })
	}
	for _, id := range []string{pending, left, done} {
		attempt(id, "verification.started", 500)
	}
	attempt(done, "verification.completed", 500)

	c.Module, c.Guest.Methods = "other", methods
	site.Configure(c)
	server.Restart(t)
	in.answer(0)
	s.want(s.validate(result), http.StatusOK, "")
	s.want(s.validate(result), http.StatusConflict, "ALREADY_USED")
	later := s.approve(redirect)
	s.want(s.validate(later), http.StatusOK, "")
	attempt(pending, "verification.completed", 204)
	if got := in.statuses(left, "verification.expired"); len(got) > 0 {
		t.Errorf("expired before its time: %v", got)
	}
	site.Advance(16 * time.Minute)
	attempt(left, "verification.expired", 204)
	for _, id := range []string{pending, left, done} {
		attempt(id, "verification.started", 500, 204)
	}
	attempt(done, "verification.completed", 500, 204)
	id, redirect := s.start()
	s.want(s.validate(s.approve(redirect)), http.StatusOK, "")
	attempt(id, "verification.completed", 204)
}

// sameModule is the module with other bytes: a custom section of one name follows.
func sameModule(t *testing.T) ([]byte, []method.Config) {
	return append(slices.Clone(testenv.Module(t)), 0, 2, 1, 'n'), nil
}

// largerModule is a module with one more kind, and a method of that kind. The module of before would reject
// the method.
func largerModule(t *testing.T) ([]byte, []method.Config) {
	return testenv.ModuleWith(t, "github.com/verge-id/verge/testharness/courier"),
		[]method.Config{{Name: "sandbox", Kind: "sandbox"}, {Name: "post", Kind: "courier"}}
}
