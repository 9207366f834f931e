package method

import (
	"cmp"
	"context"

	"github.com/verge-id/verge/core/internal/verdict"
)

// Holds reports whether a decision that was kept still counts for a session (contract 34): the method is of
// the same kind, its settings have the same fingerprint, and it trusts the anchor or issuer of the proof. An
// approval must be enough for the session's present settings. Any other verdict counts unless they ask for
// less now. After an error nothing is known.
func (o Opened) Holds(ctx context.Context, s Session, d Decision) (bool, error) {
	b, now := d.Basis, o.basis(s)
	if d.Verdict == Approved {
		if !b.Suffices(now) {
			return false, nil
		}
		return o.Stands(ctx, b)
	}
	if !o.isBehind(b) || !now.Suffices(b) {
		return false, nil
	}
	if b.Trust == "" {
		return true, nil
	}
	return o.trusts(ctx, b.Trust)
}

// Stands reports whether the method would still judge by a basis, without comparing it with the settings of a
// session. After an error nothing is known.
func (o Opened) Stands(ctx context.Context, b verdict.Basis) (bool, error) {
	if !o.isBehind(b) {
		return false, nil
	}
	return o.trusts(ctx, b.Trust)
}

// isBehind is Stands without the trust anchor. No method has an empty fingerprint, so a verdict that an
// earlier release has kept without a basis does not count.
func (o Opened) isBehind(b verdict.Basis) bool {
	return b.Method == o.Name && b.Kind == o.Kind && b.Fingerprint == o.fingerprint() && o.Reaches(b.Level)
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

func (o Opened) trusts(ctx context.Context, trust string) (bool, error) {
	if t, ok := o.method.(Truster); ok {
		return t.Trusts(ctx, trust)
	}
	return trust == "", nil
}

// judge lets the method decide, and adds the basis. The error is ErrOutdated for a stored response that no
// longer counts, and for an approval that proves less than the session asks for.
func (o Opened) judge(ctx context.Context, s Session, step Step) (Decision, error) {
	kept := step.Response != nil
	if kept && !o.isBehind(step.Basis) { // so the method need not read another method's response
		return Decision{}, ErrOutdated
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
	switch holds, err := o.Holds(ctx, s, d); {
	case err != nil:
		return Decision{}, err
	case !holds:
		return Decision{}, ErrOutdated
	}
	return d, nil
}
