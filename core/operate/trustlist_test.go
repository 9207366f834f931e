package operate

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/web"
)

// registerList is the trusted list of the method "register".
var registerList = method.TrustList{Name: "main", URL: "https://lists.example/eu.xml", Format: "vical",
	Signers: [][]byte{[]byte("signer")}, Grace: 7 * 24 * time.Hour}

// listInput returns a list with that number, with a usable certificate and an unusable one.
func (w *fixture) listInput(sequence int) TrustListInput {
	now := w.Clock.Now()
	encoded := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	return TrustListInput{Method: "register", Name: "main", Configuration: registerList.Digest(),
		Sequence: sequence, Issued: now.Add(-time.Hour), NextUpdate: now.AddDate(0, 0, 30), Issuer: "The EU",
		Signer: "CN=signer", Fingerprint: "abcd", Document: strings.Repeat("0", sequence),
		Certificates: []string{encoded("good"), encoded("bad")}}
}

func TestLoadTrustList_Views(t *testing.T) {
	w := newFixture(t)
	first := func() TrustList {
		t.Helper()
		all, err := w.TrustLists(ctx, overseer)
		coretest.Must(t, err)
		if len(all) != 1 {
			t.Fatalf("%d lists", len(all))
		}
		return all[0]
	}
	if l := first(); l.State != ListMissing || l.Source != registerList.URL || l.Entries != 0 ||
		l.Fetched != nil {
		t.Errorf("before the first: %+v", l)
	}
	loaded, err := w.LoadTrustList(ctx, operator, w.listInput(3))
	coretest.Must(t, err)
	l := first()
	if l.State != ListGood || l.Sequence != 3 || l.Entries != 1 || l.Skipped != 1 || l.Fingerprint != "abcd" {
		t.Errorf("contract 53: %+v", l)
	}
	if got, want := asJSON(t, l), asJSON(t, loaded); got != want {
		t.Errorf("the view %s, the result of the load %s", got, want)
	}
	w.Clock.Advance(31 * 24 * time.Hour)
	if l := first(); l.State != ListLate {
		t.Errorf("contract 53, late: %s", l.State)
	}
	w.Clock.Advance(7 * 24 * time.Hour)
	if l := first(); l.State != ListTooOld {
		t.Errorf("contract 53, too old: %s", l.State)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	coretest.Must(t, err)
	return string(b)
}

func TestLoadTrustList_Rejects(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(in *TrustListInput)
		says   string
	}{
		{"a lower number", func(in *TrustListInput) { in.Sequence, in.Document = 4, "x" }, "higher sequence"},
		{"the number with other content", func(in *TrustListInput) { in.Document = "x" }, "other content"},
		{"grace over", func(in *TrustListInput) {
			in.Sequence, in.NextUpdate = 6, in.Issued.AddDate(0, 0, -8)
			in.Issued = in.Issued.AddDate(-1, 0, 0)
		}, "past its next update"},
		{"dated in the future", func(in *TrustListInput) {
			in.Sequence, in.Issued = 6, in.Issued.Add(2*time.Hour)
		}, "in the future"},
		{"of another configuration", func(in *TrustListInput) { in.Configuration = "x" },
			"another configuration"},
		{"no base64", func(in *TrustListInput) { in.Certificates[0] = "!" }, "not valid"},
		{"an empty certificate", func(in *TrustListInput) { in.Certificates[0] = "" }, "not valid"},
	} {
		t.Run("contract 53: "+c.name, func(t *testing.T) {
			w := newFixture(t)
			_, err := w.LoadTrustList(ctx, operator, w.listInput(5))
			coretest.Must(t, err)
			in := w.listInput(5)
			c.change(&in)
			var invalid *web.Error
			if _, err := w.LoadTrustList(ctx, operator, in); !errors.As(err, &invalid) ||
				!strings.Contains(invalid.Message, c.says) {
				t.Fatalf("%v, want %q", err, c.says)
			}
			all, err := w.TrustLists(ctx, operator)
			coretest.Must(t, err)
			if all[0].Sequence != 5 || all[0].Document != "00000" {
				t.Errorf("a rejected list has changed the stored one: %+v", all[0])
			}
		})
	}
	w := newFixture(t)
	for _, change := range []func(in *TrustListInput){
		func(in *TrustListInput) { in.Method = "sandbox" }, func(in *TrustListInput) { in.Method = "none" },
		func(in *TrustListInput) { in.Name = "other" },
	} {
		in := w.listInput(1)
		if change(&in); true {
			if _, err := w.LoadTrustList(ctx, operator, in); !errors.Is(err, web.ErrNotFound) {
				t.Errorf("a list that is not configured: %v", err)
			}
		}
	}
}

// A host that fetches lists is the only one that loads them.
func TestLoadTrustList_HostFetches(t *testing.T) {
	w := newFixture(t)
	w.HostFetchesLists = true
	var invalid *web.Error
	if _, err := w.LoadTrustList(ctx, operator, w.listInput(1)); !errors.As(err, &invalid) ||
		!strings.Contains(invalid.Message, "itself") {
		t.Errorf("contract 53: an operator token adds an issuer: %v", err)
	}
	if _, err := (HostLists{w.Operations}).Load(ctx, w.listInput(1)); err != nil {
		t.Errorf("the host: %v", err)
	}
}

// The audit has one entry for each change of a list, and none for a list that was fetched again.
func TestLoadTrustList_Audit(t *testing.T) {
	w := newFixture(t)
	for _, sequence := range []int{1, 1, 2} {
		_, err := w.LoadTrustList(ctx, operator, w.listInput(sequence))
		coretest.Must(t, err)
		w.Clock.Advance(time.Second)
	}
	page, err := w.Audit(ctx, operator, "", Cursor{})
	coretest.Must(t, err)
	number := change{Field: "sequence", From: "1", To: "2"}
	if len(page.Items) != 2 || page.Items[0].Target != "register/main" ||
		page.Items[0].Operation != trustListLoad || page.Items[0].Changes[0] != number {
		t.Errorf("contract 42: %+v", page.Items)
	}
}

// The operators' API reads the same input as a client encodes.
func TestLoadTrustList_Request(t *testing.T) {
	w := newFixture(t)
	in := w.listInput(2)
	r, path, err := LoadTrustList.Request(in)
	coretest.Must(t, err)
	if path != "/admin/v1/trust-lists" {
		t.Errorf("path %s", path)
	}
	resp, err := LoadTrustList.Serve(ctx, w.Operations, operator, r)
	if err != nil || resp.Status != 200 {
		t.Fatalf("%+v, %v", resp, err)
	}
	for _, c := range []struct{ name, old, new string }{
		{"a negative number", `"sequence":2`, `"sequence":-2`},
		{"a number as a text", `"sequence":2`, `"sequence":"2"`},
		{"a date", `"issued":"`, `"issued":"x`},
		{"no certificates", `"certificates"`, `"certs"`},
		{"a text for certificates", `"certificates":[`, `"certificates":"a","x":[`},
		{"no document", `"document"`, `"d"`},
		{"no signer", `"signer_fingerprint"`, `"f"`},
	} {
		body := strings.Replace(string(r.Body), c.old, c.new, 1)
		_, err := LoadTrustList.Serve(
			ctx,
			w.Operations,
			operator,
			Request{Body: []byte(body), Query: url.Values{}},
		)
		var invalid *web.Error
		if body == string(r.Body) || !errors.As(err, &invalid) || len(invalid.Details) != 1 {
			t.Errorf("contract 5, 400: %s: %v", c.name, err)
		}
	}
}
