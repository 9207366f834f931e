package history_test

import (
	"testing"

	"github.com/verge-id/verge/testharness/internal/history"
)

func TestExplain_SingleUse(t *testing.T) {
	type step struct {
		owner  string
		status int
	}
	for _, c := range []struct {
		name      string
		steps     []step // in this order
		explained bool
	}{
		{"one wins, the rest learn so", []step{{"a", 200}, {"b", 409}, {"c", 409}}, true},
		{"two win", []step{{"a", 200}, {"b", 200}}, false},
		{"none wins, and it is used", []step{{"a", 409}}, false},
		{"an unknown one won", []step{{"a", 503}, {"b", 409}}, true},
		{"one without an answer won", []step{{"a", 0}, {"b", 409}}, true},
		{"an unknown one won late", []step{{"a", 503}, {"b", 200}, {"c", 409}}, true},
		{"an unknown one does not let two win", []step{{"a", 503}, {"b", 200}, {"c", 200}}, false},
		{"used before the first call that could have", []step{{"b", 409}, {"a", 503}}, false},
		{"the same call again has its first answer", []step{{"a", 200}, {"a", 200}, {"b", 409}}, true},
		{"the same call again gets 409", []step{{"a", 200}, {"a", 409}}, false},
		{"an impossible status", []step{{"a", 500}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r history.Recorder
			for _, s := range c.steps {
				r.Call(1, s.owner)(s.status)
			}
			if err := history.Explain(r.History()); (err == nil) != c.explained {
				t.Errorf("explained: %v, want %v: %v", err == nil, c.explained, err)
			}
		})
	}
	t.Run("at the same time either may win", func(t *testing.T) {
		var r history.Recorder
		a, b := r.Call(1, "a"), r.Call(2, "b")
		b(200)
		a(409)
		if err := history.Explain(r.History()); err != nil {
			t.Error(err)
		}
	})
}
