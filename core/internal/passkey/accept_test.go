package passkey

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/verge-id/verge/core/internal/birthdate"
	"github.com/verge-id/verge/core/internal/verdict"
	"github.com/verge-id/verge/core/internal/webauthn"
	"github.com/verge-id/verge/edge/signing"
)

var (
	made  = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	until = made.Add(365 * 24 * time.Hour)
)

// estimate and proof return passkeys created after an estimate and after a proof of age.
func estimate() Record {
	return Record{Proof: Proof{Basis: verdict.Basis{Level: "L1", ChallengeAge: 25, Method: "camera"},
		Publisher: "pub_a", Proven: made},
		Made: made, Until: until, written: made, hash: hashOf([]byte("id")), key: []byte("key")}
}

func proof() Record {
	r := estimate()
	r.Basis = verdict.Basis{Level: "L2", MinimumAge: 18, Method: "bank"}
	return r
}

func wanted() Want {
	return Want{Level: "L1", ChallengeAge: 25, MinimumAge: 18, Methods: []string{"camera", "bank"}}
}

func TestAccept_Reasons(t *testing.T) {
	strict := map[string]json.RawMessage{"camera": json.RawMessage(`{"deviation":3}`)}
	for _, c := range []struct {
		name   string
		record Record
		change func(r *Record, w *Want)
		ended  time.Time
		lost   bool // the method no longer trusts the basis
		gone   bool // the publisher is archived
		now    time.Time
		want   Reason
	}{
		{name: "an estimate where one is asked for", record: estimate()},
		{name: "a proof where an estimate is asked for", record: proof()},
		{name: "L2 for L2", record: proof(), change: func(_ *Record, w *Want) { w.Level = "L2" }},
		{name: "L1 for L2", record: estimate(), change: func(_ *Record, w *Want) { w.Level = "L2" },
			want: Level},
		{name: "a proof of an L1 session for L2", record: proof(),
			change: func(r *Record, w *Want) { r.Level, w.Level = "L1", "L2" }, want: Level},
		{name: "a method that the integration does not offer", record: estimate(),
			change: func(_ *Record, w *Want) { w.Methods = []string{"bank"} }, want: Method},
		{name: "a challenge age that is lower than asked for", record: estimate(),
			change: func(_ *Record, w *Want) { w.ChallengeAge = 26 }, want: Age},
		{name: "a challenge age that is higher", record: estimate(),
			change: func(_ *Record, w *Want) { w.ChallengeAge = 21 }},
		{name: "a minimum age that is lower than asked for", record: proof(),
			change: func(_ *Record, w *Want) { w.MinimumAge = 19 }, want: Age},
		{name: "an estimate is no proof of the minimum age", record: estimate(),
			change: func(_ *Record, w *Want) { w.ChallengeAge, w.MinimumAge = 30, 18 }, want: Age},
		{name: "a record of no age", record: estimate(),
			change: func(r *Record, w *Want) { r.ChallengeAge, w.ChallengeAge, w.MinimumAge = 0, 0, 0 },
			want:   Age},
		{name: "older than its life", record: estimate(), now: until, want: Over},
		{name: "the last moment of its life", record: estimate(), now: until.Add(-1)},
		{name: "of a session from before the end", record: estimate(), ended: made.Add(1), want: Over,
			change: func(r *Record, _ *Want) { r.Made = made.Add(time.Minute) }},
		{name: "of a publisher that is archived", record: proof(), gone: true, want: Over},
		{name: "of settings or an anchor that changed", record: proof(), lost: true, want: Trust},
		{name: "ended after it was made", record: estimate(), ended: made.Add(1), want: Over},
		{name: "ended when it was made", record: estimate(), ended: made, want: Over},
		{name: "ended before it was made", record: estimate(), ended: made.Add(-1)},
		{name: "of the same publisher", record: estimate(),
			change: func(_ *Record, w *Want) { w.Publisher = "pub_a" }},
		{name: "of another publisher", record: estimate(),
			change: func(_ *Record, w *Want) { w.Publisher = "pub_b" }, want: Elsewhere},
		{name: "blocked", record: estimate(), change: func(r *Record, _ *Want) { r.Blocked = made },
			want: Blocked},
		{name: "blocked, and nothing else fits", record: estimate(), now: until, ended: until, want: Blocked,
			change: func(r *Record, w *Want) { r.Blocked, w.Level = made, "L2" }},
		{name: "made where the method was less strict", record: estimate(),
			change: func(_ *Record, w *Want) { w.Settings = strict }, want: Stricter},
		{name: "made where the method was as strict", record: estimate(), change: func(r *Record, w *Want) {
			r.Settings, w.Settings = verdict.Settings(strict["camera"]), strict
		}},
		{name: "made where the method was strict", record: estimate(),
			change: func(r *Record, _ *Want) { r.Settings = verdict.Settings(strict["camera"]) }},
		{name: "stricter with another method", record: proof(),
			change: func(_ *Record, w *Want) { w.Settings = strict }},
	} {
		t.Run("contract 38: "+c.name, func(t *testing.T) {
			w, now := wanted(), made.Add(time.Hour)
			if c.change != nil {
				c.change(&c.record, &w)
			}
			if !c.now.IsZero() {
				now = c.now
			}
			st := Standing{Ended: c.ended, Archived: c.gone, Trusted: !c.lost}
			if got := Accept(c.record, w, st, now); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if c.want != "" && !slices.Contains(Reasons, c.want) {
				t.Errorf("%q is not among the reasons", c.want)
			}
		})
	}
}

func TestRecord_RoundTrip(t *testing.T) {
	blocked := proof()
	blocked.Blocked, blocked.counter, blocked.eligible, blocked.backedUp = until, 7, true, true
	blocked.Settings = "digest"
	old := proof()
	old.MinimumAge = birthdate.MaxAge
	for _, r := range []Record{estimate(), proof(), blocked, old} {
		b, err := r.marshal()
		if err != nil {
			t.Fatal(err)
		}
		got, err := parse(b)
		got.hash = r.hash
		if err != nil || got.Proof != r.Proof || !got.Made.Equal(r.Made) || !got.Until.Equal(r.Until) ||
			!got.Blocked.Equal(r.Blocked) || got.counter != r.counter || got.eligible != r.eligible ||
			got.backedUp != r.backedUp || string(got.key) != string(r.key) || !got.written.Equal(r.written) {
			t.Errorf("contract 38: %+v became %+v (%v)", r, got, err)
		}
	}
}

func TestParse_Damaged(t *testing.T) {
	for name, change := range map[string]func(r *Record){
		"no level":                func(r *Record) { r.Level = "" },
		"a level that is none":    func(r *Record) { r.Level = "L3" },
		"no method":               func(r *Record) { r.Method = "" },
		"no publisher":            func(r *Record) { r.Publisher = "" },
		"no key":                  func(r *Record) { r.key = nil },
		"a negative age":          func(r *Record) { r.MinimumAge = -1 },
		"an age above all":        func(r *Record) { r.ChallengeAge = birthdate.MaxAge + 1 },
		"no date":                 func(r *Record) { r.written = time.Time{} },
		"not made":                func(r *Record) { r.Made = time.Time{} },
		"over before it was made": func(r *Record) { r.Until = r.Made },
	} {
		r := estimate()
		change(&r)
		b, err := r.marshal()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := parse(b); err == nil {
			t.Errorf("contract 38: %s: read as %+v", name, got)
		}
	}
}

func FuzzRecord(f *testing.F) {
	for _, r := range []Record{estimate(), proof()} {
		b, err := r.marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"level":"L2","method":"m","publisher":"p","key":"","made":"0001-01-01T00:00:00Z"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parse(b)
		if err != nil {
			return
		}
		if r.Level != "L1" && r.Level != "L2" || r.ChallengeAge > 99 || r.MinimumAge > 99 ||
			!r.Until.After(r.Made) || len(r.key) == 0 {
			t.Errorf("%q is parsed as %+v", b, r)
		}
		again, err := r.marshal()
		if err != nil {
			return // a year that JSON cannot write
		}
		if second, err := parse(again); err != nil || second.Proof != r.Proof ||
			!second.Until.Equal(r.Until) {
			t.Errorf("%q is written as %q and read as %+v, %v", b, again, second, err)
		}
		if _, err := webauthn.VerifyAssertion(t.Context(), signing.Verify, webauthn.RelyingParty{},
			make([]byte, 32),
			r.credential([]byte("a")), b); err == nil {
			t.Error("an unsigned response is accepted")
		}
	})
}
