package method_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/problem"
)

// bank and camera are kinds as a release may have them. The settings of bank are good unless they are "bad".
var (
	bank = method.Kind{Name: "bank", Level: "L2", Check: func(c method.Config) (wrong problem.List) {
		if string(c.Settings) == "bad" {
			wrong.Add("issuer", "it is bad")
		}
		return wrong
	}}
	camera = method.Kind{Name: "camera", Level: "L1", Estimates: true}
	toy    = method.Kind{Name: "toy", Level: "L2", Sandbox: true}
)

func TestNewCatalog(t *testing.T) {
	named := func(name string) method.Config { return method.Config{Name: name, Kind: "bank"} }
	level := func(kind, level string) method.Config {
		return method.Config{Name: "m", Kind: kind, Level: level}
	}
	for _, c := range []struct {
		rule    string
		methods []method.Config
		wrong   []string // how the problems begin
	}{
		{"contract 31: none", nil, nil},
		{"contract 31: a good one", []method.Config{named("bankid")}, nil},
		{"contract 31: several of a kind", []method.Config{named("bankid"), named("bankid-2")}, nil},
		{"contract 31: the longest name", []method.Config{named(strings.Repeat("a", 32))}, nil},
		{"contract 31: a longer one", []method.Config{named(strings.Repeat("a", 33))}, []string{"methods: "}},
		{"contract 31: no name", []method.Config{named("")}, []string{`methods: "" is no name; use 1 to 32`}},
		{"contract 31: upper case", []method.Config{named("BankID")}, []string{`methods: "BankID" is no name`}},
		{"contract 31: a slash", []method.Config{named("bank/id")}, []string{"methods: "}},
		{"contract 31: one name twice", []method.Config{named("bankid"), named("bankid")},
			[]string{"methods.bankid: it occurs twice"}},
		{"contract 31: an unknown kind", []method.Config{{Name: "m", Kind: "retina"}},
			[]string{`methods.m.kind: "retina" is not known; this release has: bank, camera, toy`}},
		{"contract 31: no kind", []method.Config{{Name: "m"}}, []string{`methods.m.kind: "" is not known`}},
		{"contract 31: the kind's level", []method.Config{level("camera", "L1")}, nil},
		{"contract 31: a lower level", []method.Config{level("bank", "L1")}, nil},
		{"contract 31: a level above the kind's", []method.Config{level("camera", "L2")},
			[]string{"methods.m.level: L2 is too high; camera proves at most L1"}},
		{"contract 31: a level that does not exist", []method.Config{level("bank", "l2")},
			[]string{`methods.m.level: "l2" must be L1 or L2`}},
		{"a title that fits", []method.Config{{Name: "m", Kind: "bank", Title: strings.Repeat("é", 30)}},
			nil},
		{"a title that does not", []method.Config{{Name: "m", Kind: "bank", Title: strings.Repeat("é", 31)}},
			[]string{"methods.m.title: it has 62 bytes; at most 60 are allowed"}},
		{"titles in some languages", []method.Config{{Name: "m", Kind: "bank",
			Titles: map[string]string{"en": "Bank", "de": strings.Repeat("é", 30)}}}, nil},
		{"titles that cannot be", []method.Config{{Name: "m", Kind: "bank", Titles: map[string]string{
			"de": strings.Repeat("é", 31), "en": "", "fr": "Banque\a"}}},
			[]string{"methods.m.title.de: it has 62 bytes; at most 60 are allowed",
				"methods.m.title.en: it is empty; leave it out for the English title",
				"methods.m.title.fr: it must be text without control characters"}},
		{"a title that is not text", []method.Config{{Name: "m", Kind: "bank", Title: "Bank\a"}},
			[]string{"methods.m.title: it must be text without control characters"}},
		{"the kind's own problems", []method.Config{{Name: "m", Kind: "bank", Settings: []byte("bad")}},
			[]string{"methods.m.bank.issuer: it is bad"}},
		{"all problems together", []method.Config{named("A"), level("camera", "L2"), {Name: "n", Kind: "x"}},
			[]string{"methods: ", "methods.m.level: ", "methods.n.kind: "}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			_, wrong := method.NewCatalog([]method.Kind{bank, camera, toy}, c.methods, false)
			begins := slices.EqualFunc(wrong, c.wrong, func(p problem.Problem, begin string) bool {
				return strings.HasPrefix(p.Error(), begin)
			})
			if !begins {
				t.Errorf("the problems are %q, want %q", wrong, c.wrong)
			}
		})
	}
}

func TestCatalog(t *testing.T) {
	all := []method.Config{{Name: "bankid", Kind: "bank"}, {Name: "face", Kind: "camera"},
		{Name: "toy", Kind: "toy"}}
	catalog, wrong := method.NewCatalog([]method.Kind{bank, camera, toy}, all, true)
	if err := wrong.Err(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(catalog.Names(), " "); got != "bankid face toy" {
		t.Errorf("the names are %s", got)
	}
	face, ok := catalog.Find("face")
	if !ok || face.Level != "L1" || !face.Dev || face.Of.Name != "camera" {
		t.Errorf("face is %+v", face)
	}
	if !face.Reaches("L1") || face.Reaches("L2") {
		t.Error("contract 32: a camera reaches L1 alone")
	}
	if bankid, _ := catalog.Find("bankid"); bankid.Level != "L2" || !bankid.Reaches("L1") ||
		!bankid.Reaches("L2") {
		t.Error("contract 31: without a level, it is the kind's")
	}
	if _, ok := catalog.Find("retina"); ok {
		t.Error("a method is found that is not there")
	}
}

// asker is a method that asks its other side when it begins.
type asker struct {
	method.Method
	host method.Host
}

func (a asker) Begin(ctx context.Context, _ method.Session) error {
	_, err := a.host.Fetch.Fetch(ctx, host.FetchRequest{URL: "https://bank.example/"})
	return err
}

type noted struct{ requests []host.FetchRequest }

func (n *noted) Fetch(_ context.Context, r host.FetchRequest) (host.FetchResponse, error) {
	n.requests = append(n.requests, r)
	return host.FetchResponse{}, nil
}

// TestRequestsSayForWhom: the edge knows by a method's name where its requests may go.
func TestRequestsSayForWhom(t *testing.T) {
	asks := bank
	asks.Open = func(_ method.Config, h method.Host) (method.Method, error) { return asker{host: h}, nil }
	catalog, _ := method.NewCatalog([]method.Kind{asks},
		[]method.Config{{Name: "one", Kind: "bank"}, {Name: "two", Kind: "bank"}}, false)
	var fetch noted
	opened, err := catalog.Open(method.Host{Fetch: &fetch, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"two", "one"} {
		if err := opened[name].Begin(t.Context(), method.Session{}); err != nil {
			t.Fatal(err)
		}
	}
	if len(fetch.requests) != 2 || fetch.requests[0].For != "two" || fetch.requests[1].For != "one" {
		t.Errorf("the requests are %+v", fetch.requests)
	}
	broken := bank
	broken.Open = func(method.Config, method.Host) (method.Method, error) { return nil, errors.New("no key") }
	catalog, _ = method.NewCatalog([]method.Kind{broken}, []method.Config{{Name: "one", Kind: "bank"}}, false)
	if _, err := catalog.Open(method.Host{}); err == nil || err.Error() != "method one: no key" {
		t.Errorf("a method that cannot be opened: %v", err)
	}
}

func TestConfig_TitleIn(t *testing.T) {
	for _, c := range []struct {
		rule   string
		config method.Config
		want   map[string]string
	}{
		{"one title for all", method.Config{Title: "Bank"}, map[string]string{"en": "Bank", "de": "Bank"}},
		{"none: the words for its kind", method.Config{}, map[string]string{"en": "", "de": ""}},
		{"by language, else in English",
			method.Config{Titles: map[string]string{"en": "Bank", "fr": "Banque"}},
			map[string]string{"en": "Bank", "fr": "Banque", "de": "Bank"}},
		{"without an English one", method.Config{Titles: map[string]string{"fr": "Banque"}},
			map[string]string{"en": "", "fr": "Banque", "de": ""}},
	} {
		for lang, want := range c.want {
			if got := c.config.TitleIn(lang); got != want {
				t.Errorf("contract 31: %s: %q in %s, want %q", c.rule, got, lang, want)
			}
		}
	}
}
