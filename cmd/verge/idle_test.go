package main

import (
	"testing"
	"time"

	"github.com/verge-id/verge/testharness/stores"
)

// TestAnIdleInstanceSeesWhatAnotherLeft: nobody wakes an instance for tasks
// that another one has scheduled, and on an empty store it learnt of none to
// wait for. It has to look.
func TestAnIdleInstanceSeesWhatAnotherLeft(t *testing.T) {
	sink := newHolding(t)
	sink.fail()
	site := newSite(t, stores.StartRedis(t, stores.Durable...).URL(), sink.URL, unlimited)
	site.start()
	busy := site.start()
	if _, _, err := busy.start(testIntegration); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a first attempt", func() bool { _, posts := sink.count(); return posts == 1 })
	time.Sleep(time.Second) // for its record: the next attempt is 4 to 6 s away, else as far as the lease
	busy.kill()
	sink.open.Store(true)
	if !within(time.Minute, func() bool { _, posts := sink.count(); return posts > 1 }) {
		t.Error("I10: the event of an instance that died waits for a restart")
	}
}
