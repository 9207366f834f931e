package cli

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/core/operate"
)

// The flags of commands become the inputs of operations.
func TestFilled(t *testing.T) {
	t.Parallel()
	p, _, _ := testProgram()
	now := time.Date(2026, 11, 20, 22, 10, 0, 500, time.UTC)
	p.Now = func() time.Time { return now }
	expires := now.Add(time.Hour).Truncate(time.Second)
	name, empty := "Shop", ""
	change := changing{IfVersion: "v"}
	for _, c := range []struct {
		rule      string
		got, want any
	}{
		{"an id alone", filled[string](p, &keyRevokeCmd{ID: "key_1"}), "key_1"},
		{"a text that is always sent", filled[operate.PublisherInput](p, &publisherCreateCmd{ID: "pub_a"}),
			operate.PublisherInput{ID: "pub_a", Name: &empty}},
		{"a change has the id in its path alone",
			filled[operate.PublisherUpdate](p,
				&publisherChangeCmd{ID: "pub_a", Name: &name, changing: change}),
			operate.PublisherUpdate{Versioned: operate.Versioned{ID: "pub_a", Version: "v"},
				PublisherInput: operate.PublisherInput{Name: &name}}},
		{"a time from now", filled[operate.KeyInput](p, &keyCreateCmd{Publisher: "pub_a",
			Expires: config.Duration(time.Hour)}), operate.KeyInput{Publisher: "pub_a", Expires: &expires}},
		{"no time", filled[operate.KeyInput](p, &keyCreateCmd{Publisher: "pub_a"}),
			operate.KeyInput{Publisher: "pub_a"}},
		{"a role", filled[operate.RoleInput](p, &memberRoleCmd{ID: "mem_1", Role: "admin"}),
			operate.RoleInput{Member: "mem_1", Role: operate.RoleAdmin}},
		{"another name of the path's id",
			filled[operate.TestSessionInput](p,
				&sessionTestCmd{Integration: "uuid", CallbackURL: "https://a.example"}),
			operate.TestSessionInput{Integration: "uuid", CallbackURL: "https://a.example"}},
		{"an embedded search", filled[operate.IntegrationQuery](p, &integrationListCmd{Publisher: "pub_a",
			Name: "x"}), operate.IntegrationQuery{Publisher: "pub_a", Search: operate.Search{Name: "x"}}},
		{"a command without input", filled[struct{}](p, &methodListShowCmd{}), struct{}{}},
	} {
		got, err := json.Marshal(c.got)
		want, _ := json.Marshal(c.want)
		if err != nil || string(got) != string(want) {
			t.Errorf("%s: %s, %v, want %s", c.rule, got, err, want)
		}
	}
	in := filled[operate.PublisherUpdate](p, &publisherChangeCmd{ID: "pub_a", changing: change})
	if in.Versioned.ID != "pub_a" || in.Version != "v" || in.PublisherInput.ID != "" {
		t.Errorf("%+v", in) // these are not in the JSON
	}
	if in := filled[operate.RoleInput](p, &memberRoleCmd{ID: "mem_1"}); in.Member != "mem_1" {
		t.Errorf("%+v", in)
	}
}
