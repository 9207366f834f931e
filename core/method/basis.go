package method

import (
	"cmp"
	"context"

	"github.com/verge-id/verge/core/internal/verdict"
)

// Holds returns nil if a decision that was kept still counts for a session (contract 34): the method is of
// the same kind, its settings have the same fingerprint, and it trusts the anchor or issuer of the proof. An
// approval must be enough for the session's present settings. Any other verdict counts unless they ask for
// less now. An ErrOutdated names the setting that changed. After another error nothing is known.
func (o Opened) Holds(ctx context.Context, s Session, d Decision) error {
	b, now := d.Basis, o.basis(s)
	if err := o.changed(b); err != nil {
		return err
	}
	setting := now.Lacks(b)
	if d.Verdict == Approved {
		setting = b.Lacks(now)
	}
	if setting != "" {
		return &SettingError{Setting: setting, Err: ErrOutdated}
	}
	if d.Verdict != Approved && b.Trust == "" {
		return nil
	}
	return o.trusts(ctx, b.Trust)
}

// Stands is Holds without a comparison with the settings of a session.
func (o Opened) Stands(ctx context.Context, b verdict.Basis) error {
	if err := o.changed(b); err != nil {
		return err
	}
	return o.trusts(ctx, b.Trust)
}

// changed is Stands without the trust anchor. No method has an empty fingerprint, so a verdict that an
// earlier release has kept without a basis does not count.
func (o Opened) changed(b verdict.Basis) error {
	setting := ""
	switch {
	case b.Fingerprint == "":
		return ErrOutdated
	case b.Method != o.Name:
		setting = "methods"
	case b.Kind != o.Kind:
		setting = "kind"
	case b.Fingerprint != o.fingerprint():
		setting = "methods." + o.Kind
	case !o.Reaches(b.Level):
		setting = "level"
	default:
		return nil
	}
	return &SettingError{Setting: setting, Err: ErrOutdated}
}

// basis returns the basis of a verdict that the method would give now.
func (o Opened) basis(s Session) verdict.Basis {
	b := verdict.Basis{Method: o.Name, Kind: o.Kind, Fingerprint: o.fingerprint(), Level: s.Level,
		Settings: verdict.Settings(s.Settings)}
	if o.Of.Estimates {
		b.ChallengeAge = s.ChallengeAge
	} else {
		b.MinimumAge = s.MinimumAge
	}
	return b
}

func (o Opened) fingerprint() string {
	if f, ok := o.method.(Fingerprinter); ok {
		return f.Fingerprint()
	}
	return verdict.Digest(string(o.Settings))
}

func (o Opened) trusts(ctx context.Context, trust string) error {
	trusted, err := trust == "", error(nil)
	if t, ok := o.method.(Truster); ok {
		trusted, err = t.Trusts(ctx, trust)
	}
	if err == nil && !trusted {
		err = &SettingError{Setting: "trust_anchors", Err: ErrOutdated}
	}
	return err
}

// judge lets the method decide, and adds the basis. The error is ErrOutdated for a stored response that no
// longer counts, and for an approval that proves less than the session asks for.
func (o Opened) judge(ctx context.Context, s Session, step Step) (Decision, error) {
	kept := step.Response != nil
	if kept { // so that the method need not read another method's response
		if err := o.changed(step.Basis); err != nil {
			return Decision{}, err
		}
	}
	d, err := o.method.Act(ctx, s, step)
	if err != nil || d.Verdict == Pending {
		return d, err
	}
	if d.Basis = step.Basis; !kept {
		d.Basis = o.basis(s)
	}
	d.Basis.Trust = d.Trust
	if d.Verdict == Approved && !o.Of.Estimates {
		d.Basis.MinimumAge = cmp.Or(d.Age, d.Basis.MinimumAge)
	}
	if d.Verdict == Cancelled {
		return d, nil
	}
	if err := o.Holds(ctx, s, d); err != nil {
		return Decision{}, err
	}
	return d, nil
}
