package cli

import (
	"testing"
	"time"

	"github.com/verge-id/verge/testharness/stores"
	"github.com/verge-id/verge/testharness/wait"
)

// TestIdle_EventsOfAnotherInstance shows that an instance polls for tasks. No signal wakes
// it for tasks that another instance has scheduled, and its last poll found an empty store.
func TestIdle_EventsOfAnotherInstance(t *testing.T) {
	t.Parallel()
	sink := newHolding(t)
	sink.fail()
	site := newSite(t, stores.StartRedis(t, stores.Durable...).URL(), sink.URL, unlimited)
	site.start()
	busy := site.start()
	if _, _, err := busy.start(testIntegration); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "a first attempt", func() bool { _, posts := sink.count(); return posts >= 1 })
	time.Sleep(time.Second) // until the failure is recorded, so that the next attempt is due in 4 to 6 s
	busy.kill()
	wait.For(busy.ended)
	_, before := sink.count()
	sink.open.Store(true)
	if !within(time.Minute, func() bool { _, posts := sink.count(); return posts > before }) {
		t.Error("I10: the event of an instance that died waits for a restart")
	}
}
