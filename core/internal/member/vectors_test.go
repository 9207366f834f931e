package member

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
)

// vectorFile is testdata/secrets.json, which another program created.
type vectorFile struct {
	Description []string `json:"description"`
	Secrets     []struct {
		Kind   string `json:"kind"`
		Random string `json:"random"`
		Text   string `json:"text"`
		Item   string `json:"item"`
	} `json:"secrets"`
	NotTokens []struct {
		Wrong string `json:"wrong"`
		Text  string `json:"text"`
	} `json:"not_tokens"`
	Forms []struct {
		Cookie string `json:"cookie"`
		Action string `json:"action"`
		Token  string `json:"token"`
	} `json:"forms"`
}

func TestVectors(t *testing.T) {
	b, err := os.ReadFile("testdata/secrets.json")
	coretest.Must(t, err)
	var f vectorFile
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	coretest.Must(t, d.Decode(&f))
	of := map[string]struct{ prefix, items string }{
		"invitation": {invitationPrefix, invitationItems}, "sign-in link": {linkPrefix, linkItems},
		"operator token":      {operatorPrefix, operatorItems},
		"cookie of a session": {cookiePrefix, sessionItems},
	}
	for _, v := range f.Secrets {
		random, err := hex.DecodeString(v.Random)
		coretest.Must(t, err)
		text, err := integration.GenerateKey(of[v.Kind].prefix, bytes.NewReader(random))
		if err != nil || text != v.Text || !integration.WellFormed(of[v.Kind].prefix, text) {
			t.Errorf("contract 43: %s of %s is %q, %v, want %q", v.Kind, v.Random, text, err, v.Text)
		}
		if item := of[v.Kind].items + hashOf(v.Text); item != v.Item {
			t.Errorf("contract 43: %s is stored as %s, want %s", v.Text, item, v.Item)
		}
	}
	for _, v := range f.NotTokens {
		if integration.WellFormed(operatorPrefix, v.Text) {
			t.Errorf("contract 42: %q is accepted as an operator token: %s", v.Text, v.Wrong)
		}
	}
	for _, v := range f.Forms {
		s := view(session{}, Actor{}, v.Cookie)
		if got := s.FormToken(v.Action); got != v.Token || !s.CheckForm(v.Action, v.Token) {
			t.Errorf("contract 43: the form %s carries %s, want %s", v.Action, got, v.Token)
		}
	}
	if len(f.Secrets) != 12 || len(f.NotTokens) != 8 || len(f.Forms) != 2 {
		t.Errorf("the file has %d secrets, %d other texts and %d forms", len(f.Secrets), len(f.NotTokens),
			len(f.Forms))
	}
}
