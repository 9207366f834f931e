package workers_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/openid4vp"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/edge/internal/listfetch"
	"github.com/verge-id/verge/testharness/wallettest"
	"github.com/verge-id/verge/testharness/workerd"
)

// A Worker has no host that fetches lists: an operator verifies one elsewhere and loads it.
func TestTrustListsAtTheEdge(t *testing.T) {
	signer, issuer := wallettest.NewListSigner(time.Now()), wallettest.NewIssuer(wallettest.IssuerConfig{})
	settings, err := json.Marshal(map[string]any{"profile": "eu-av", "trust_lists": []any{map[string]any{
		"name": "eu", "url": "https://lists.example/eu", "format": "etsi-ts-119602",
		"signers": []string{string(signer.PEM())}}}})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := deploy(t, newInbox(t), func(w *workerd.Worker) {
		w.ConfigText = fmt.Sprintf(
			`{"base_url": %q, "dev": true, "partitions": 2, "methods": [{"name": "wallet", `+
				`"kind": "openid4vp", "settings": %s}]}`,
			w.Config.BaseURL,
			settings,
		)
		w.Site.(map[string]any)["integrations"] = []any{map[string]any{"id": bankIntegration(0),
			"publisher": "pub_shop", "name": "Shop", "level": "L2", "challenge_age": 25,
			"methods":     []string{"wallet"},
			"webhook_off": true}}
	})
	s.makeKey()
	if a := s.askForStart(bankIntegration(0)); a.status != http.StatusBadGateway {
		t.Errorf("contract 53: a start without a list: %d %s", a.status, a.body)
	}
	list := openid4vp.Kind.Lists(method.Config{Settings: settings})[0]
	load := func(sequence uint64, more int) answer {
		t.Helper()
		document, err := signer.Sign(wallettest.List{Sequence: sequence, Issued: time.Now().Add(-time.Hour),
			NextUpdate: time.Now().AddDate(0, 0, 10)})
		if err != nil {
			t.Fatal(err)
		}
		from := list
		from.URL, from.File = "", "list"
		in, err := listfetch.Source{Now: time.Now,
			ReadFile: func(string, int) ([]byte, error) { return document, nil }}.Get(t.Context(),
			"wallet", from)
		in.Configuration = list.Digest()
		if err != nil {
			t.Fatal(err)
		}
		for n := range more { // certificates of different bytes that are usable
			i := wallettest.NewIssuer(
				wallettest.IssuerConfig{Now: time.Now().Add(time.Duration(n) * time.Second)},
			)
			in.Certificates = append(in.Certificates, base64.StdEncoding.EncodeToString(i.Root.Raw))
		}
		in.Certificates = append(in.Certificates, base64.StdEncoding.EncodeToString(issuer.Root.Raw))
		return s.post("/admin/v1/trust-lists", operatorToken, in)
	}
	if a := load(2, 150); a.status != http.StatusOK { // two pieces
		t.Fatalf("contract 53: %d %s", a.status, a.body)
	}
	if a := load(1, 0); a.status != http.StatusBadRequest ||
		!strings.Contains(string(a.body), "higher sequence") {
		t.Errorf("contract 53: a replay: %d %s", a.status, a.body)
	}
	var stored struct {
		Lists []operate.TrustList `json:"trust_lists"`
	}
	a := s.do("GET", s.admin+"/admin/v1/trust-lists", bearer(operatorToken), nil)
	if err := json.Unmarshal(a.body, &stored); err != nil || len(stored.Lists) != 1 ||
		stored.Lists[0].Entries != 151 || stored.Lists[0].State != operate.ListGood ||
		stored.Lists[0].Sequence != 2 {
		t.Errorf("contract 53: %v, %d %s", err, a.status, a.body)
	}
	deadline := time.Now().Add(time.Minute)
	for { // the isolate asks for a missing list again after some seconds
		a := s.askForStart(bankIntegration(0))
		if a.status == http.StatusOK {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("contract 53: a start with a list: %d %s", a.status, a.body)
		}
		time.Sleep(time.Second)
	}
}
