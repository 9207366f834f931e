package member

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/web"
)

func TestOperatorTokens(t *testing.T) {
	w := newFixture(t)
	end := w.Clock.Now().Add(time.Hour)
	text, o, err := w.CreateOperator(ctx, "ci", RoleOperator, nil, nil)
	coretest.Must(t, err)
	short, _, err := w.CreateOperator(ctx, "guest", RoleViewer, &end, nil)
	coretest.Must(t, err)
	if !strings.HasPrefix(text, operatorPrefix) || len(text) != len(operatorPrefix)+49 ||
		o.Last4 != text[len(text)-4:] {
		t.Errorf("contract 42: the token is %q, %+v", text, o)
	}
	find := func(text string) string {
		o, err := w.another(t).FindOperator(ctx, text)
		if err != nil && err != web.ErrNotFound {
			t.Fatal(err)
		}
		return o.Name
	}
	for _, c := range []struct{ text, want string }{
		{text, "ci"}, {short, "guest"}, {configuredToken, Configured},
		{"", ""}, {configuredToken + " ", ""}, {configuredToken[1:], ""}, {hashOf(text), ""},
		{o.ID, ""}, {Configured, ""}, {text[:len(text)-1] + "0", ""}, {text + "0", ""},
	} {
		if got := find(c.text); got != c.want {
			t.Errorf("contract 42: %q is the token %q, want %q", c.text, got, c.want)
		}
	}

	w.Clock.Advance(time.Hour)
	if got := find(short); got != "" {
		t.Errorf("contract 42: a token that has ended is %q", got)
	}
	for range 2 {
		r, err := w.RevokeOperator(ctx, o.ID)
		if err != nil || r.Revoked == nil || r.Name != "ci" {
			t.Errorf("contract 42: revoked: %+v, %v", r, err)
		}
	}
	if got := find(text); got != "" {
		t.Errorf("contract 42: a revoked token is %q", got)
	}
	if _, err := w.RevokeOperator(ctx, Configured); err != ErrConfigured {
		t.Errorf("contract 42: revoking the configured token: %v", err)
	}
	for _, id := range []string{"", "op_", "op_0000000000000000", o.ID[:10], "key_" + o.ID[3:], text} {
		if _, err := w.RevokeOperator(ctx, id); err != web.ErrNotFound {
			t.Errorf("contract 42: revoking %q: %v", id, err)
		}
	}

	w.OperatorToken = ""
	if got := w.isConfigured(""); got {
		t.Error("contract 42: without a configured token, the empty text is valid")
	}
}

func TestOperators(t *testing.T) {
	w := newFixture(t)
	want := []string{Configured}
	for range 5 {
		_, o, err := w.CreateOperator(ctx, "ci", RoleViewer, nil, nil)
		coretest.Must(t, err)
		want = append(want, o.ID)
	}
	slices.Sort(want[1:])
	_, err := w.RevokeOperator(ctx, want[3])
	coretest.Must(t, err)
	var got []string
	for after := ""; ; {
		some, next, err := w.Operators(ctx, after, 2)
		coretest.Must(t, err)
		for _, o := range some {
			got = append(got, o.ID)
		}
		if next == "" {
			break
		}
		after = next
	}
	if !slices.Equal(got, want) {
		t.Errorf("contract 42: the tokens are %v, want %v", got, want)
	}
	if _, _, err := w.Operators(ctx, "configuration", 2); !wrongMember(err, "after") {
		t.Errorf("an invented cursor: %v", err)
	}
	w.OperatorToken = ""
	if all, _, err := w.Operators(ctx, "", 10); err != nil || len(all) != 5 {
		t.Errorf("contract 42: without one in the configuration the tokens are %v, %v", all, err)
	}
}
