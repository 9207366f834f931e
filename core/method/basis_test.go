package method

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/verge-id/verge/core/internal/verdict"
)

// anchored trusts one anchor.
type anchored struct{ once }

func (anchored) Trusts(_ context.Context, trust string) (bool, error) { return trust == "anchor", nil }

// Contracts 34 and 48: the error about a verdict that no longer counts names the setting that changed.
func TestHolds_SettingThatChanged(t *testing.T) {
	session := Session{Level: "L2", MinimumAge: 18, Settings: json.RawMessage(`{"a":1}`)}
	open := func() Opened {
		o := Opened{method: anchored{}}
		o.Name, o.Kind, o.Level, o.Settings = "bank", "letters", "L2", json.RawMessage(`{"b":2}`)
		return o
	}
	for _, c := range []struct {
		name    string
		change  func(*Opened, *Session, *verdict.Basis)
		verdict Verdict
		want    string // "none": the verdict counts
	}{
		{"nothing", func(*Opened, *Session, *verdict.Basis) {}, Approved, "none"},
		{"no basis", func(_ *Opened, _ *Session, b *verdict.Basis) { *b = verdict.Basis{} }, Approved, ""},
		{"another name", func(o *Opened, _ *Session, _ *verdict.Basis) { o.Name = "other" }, Approved,
			"methods"},
		{"another kind", func(o *Opened, _ *Session, _ *verdict.Basis) { o.Kind = "other" }, Approved,
			"kind"},
		{"another setting", func(o *Opened, _ *Session, _ *verdict.Basis) { o.Settings = nil }, Approved,
			"methods.letters"},
		{"a lower level", func(o *Opened, _ *Session, _ *verdict.Basis) { o.Level = "L1" }, Approved,
			"level"},
		{"an anchor", func(_ *Opened, _ *Session, b *verdict.Basis) { b.Trust = "former" }, Approved,
			"trust_anchors"},
		{"a higher age", func(_ *Opened, s *Session, _ *verdict.Basis) { s.MinimumAge = 21 }, Approved,
			"minimum_age"},
		{"a lower age", func(_ *Opened, s *Session, _ *verdict.Basis) { s.MinimumAge = 16 }, Approved,
			"none"},
		{"a lower age than the one rejected", func(_ *Opened, s *Session, _ *verdict.Basis) {
			s.MinimumAge = 16
		}, Rejected, "minimum_age"},
		{"the integration's settings", func(_ *Opened, s *Session, _ *verdict.Basis) {
			s.Settings = json.RawMessage(`{"a":2}`)
		}, Approved, "method_settings"},
	} {
		t.Run("contract 34: "+c.name, func(t *testing.T) {
			o, s := open(), session
			b := o.basis(s)
			b.Trust = "anchor"
			c.change(&o, &s, &b)
			err := o.Holds(t.Context(), s, Decision{Verdict: c.verdict, Basis: b})
			if c.want == "none" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var setting SettingError
			if of := (*SettingError)(nil); errors.As(err, &of) {
				setting = *of
			}
			if !errors.Is(err, ErrOutdated) || setting.Setting != c.want || ReasonOf(err) != "outdated" {
				t.Errorf("the error is %v (%s) of the setting %q, want %q", err, ReasonOf(err),
					setting.Setting, c.want)
			}
		})
	}
}
