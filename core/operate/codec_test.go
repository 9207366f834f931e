package operate

import (
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/web"
)

// Every input is read from a request and encoded into one. A field of a type that the codec does not know
// would panic here.
func TestInputs_AllTypes(t *testing.T) {
	for _, e := range Endpoints() {
		in := reflect.New(e.Describe().Input).Elem()
		r := Request{ID: "x", Match: "*", Body: []byte(`{"unknown":1}`), Query: url.Values{}}
		for n := 0; in.Kind() == reflect.Struct && n < in.NumField(); n++ {
			if tag := in.Type().Field(n).Tag; tag.Get("need") != "" {
				r.Query.Set(tag.Get("query"), "x")
			}
		}
		if _, err := read(r, "POST", in); err != nil {
			t.Errorf("%T: %v", e, err)
		}
		if _, _, err := encode(in.Interface(), "GET", "/{id}"); err != nil {
			t.Errorf("%T: %v", e, err)
		}
	}
}

// A request that is encoded from an input has the same input again.
func TestInputs_RoundTrip(t *testing.T) {
	name, age, off, list := "Shop", 25, true, []string{"a", "b"}
	for _, c := range []struct {
		rule, method string
		in           any
	}{
		{"an id", "GET", "pub_a"},
		{"a cursor of a list", "GET", IntegrationQuery{"pub_a", Search{"text", Cursor{"after", 7}}}},
		{"a change with a version", "PATCH", IntegrationUpdate{Versioned{"id", "v"}, IntegrationInput{
			Name: &name, ChallengeAge: &age, Methods: &list, WebhookInput: &WebhookInput{Off: &off}}}},
		{"a creation", "POST", IntegrationInput{Name: &name, Publisher: "pub_a"}},
		{"a parameter of a POST", "POST", EventAt{"uuid", "p0:evt_1"}},
		{"a flag of a POST", "POST", WebhookTestInput{"uuid", true}},
		{"a field that a GET has in the query", "GET", OfPublisher{"pub_a"}},
		{"a field that a POST has in the body", "POST", OfPublisher{"pub_a"}},
		{"a body as it is", "POST", SiteInput{[]byte(`{"publishers":[]}`), true}},
	} {
		r, _, err := encode(c.in, c.method, "/{id}")
		got := reflect.New(reflect.TypeOf(c.in)).Elem()
		misread, readErr := read(r, c.method, got)
		if err != nil || readErr != nil || len(misread) > 0 || !reflect.DeepEqual(got.Interface(), c.in) {
			t.Errorf("%s: %+v, %v, %v, %v, want %+v", c.rule, got, err, readErr, misread, c.in)
		}
	}
}

// A change does not read the fields that only a creation has.
func TestInputs_OnlyCreate(t *testing.T) {
	var in PublisherUpdate
	r := Request{ID: "pub_a", Match: `"v"`, Body: []byte(`{"id":"pub_b","name":"New"}`)}
	misread, err := read(r, "PATCH", reflect.ValueOf(&in).Elem())
	if err != nil || misread != nil || in.PublisherInput.ID != "" || in.Versioned.ID != "pub_a" ||
		in.Version != "v" || *in.Name != "New" {
		t.Errorf("%+v, %v, %v", in, misread, err)
	}
}

func TestInputs_Missing(t *testing.T) {
	for _, c := range []struct {
		rule, method string
		in           any
		ends         bool // the error ends the request
	}{
		{"a field of the body", "POST", OfPublisher{}, false},
		{"a parameter that a body would need", "GET", OfPublisher{}, false},
		{"a parameter", "GET", FinishedQuery{}, true},
		{"a time and a list", "POST", TrustListInput{}, false},
	} {
		misread, err := read(Request{}, c.method, reflect.New(reflect.TypeOf(c.in)).Elem())
		required := func(f web.FieldError) bool { return f.Code == "required" && f.Message != "" }
		if (err != nil) != c.ends {
			t.Errorf("%s: %v", c.rule, err)
		}
		for _, f := range misread {
			if !required(f) {
				t.Errorf("%s: %+v", c.rule, f)
			}
		}
		if want := map[bool]int{true: 0, false: 1}[c.ends || c.method == "GET"]; len(misread) < want {
			t.Errorf("%s: no error", c.rule)
		}
	}
}

// Contract 42: CSV has no place to say that integrations are missing.
func TestUsageCSV_More(t *testing.T) {
	for more, want := range map[bool]string{false: "publisher_id,day,", true: ""} {
		text, err := UsageQuery{Publisher: pubA}.CSV(nil, more)
		if (err != nil) != more || !strings.HasPrefix(string(text), want) {
			t.Errorf("more: %v: %q, %v", more, text, err)
		}
	}
}

// An integration's id may be in upper case (contract 42), as in requests of publishers. Other ids and texts
// are unchanged.
func TestInputs_UpperCaseUUID(t *testing.T) {
	const upper, lower = "59293051-BA90-4166-B718-C3F4B7B5CAE5", "59293051-ba90-4166-b718-c3f4b7b5cae5"
	for _, c := range []struct {
		rule, method string
		given, want  any
	}{
		{"the path", "GET", upper, lower},
		{"the path of a change", "POST", WebhookTestInput{upper, true}, WebhookTestInput{lower, true}},
		{"a parameter", "GET", UsageQuery{Integration: upper}, UsageQuery{Integration: lower}},
		{"a field", "POST", KeyInput{Publisher: upper, Integration: upper},
			KeyInput{Publisher: upper, Integration: lower}},
		{"another id", "GET", "pub_A", "pub_A"},
	} {
		r, _, err := encode(c.given, c.method, "/{id}")
		got := reflect.New(reflect.TypeOf(c.given)).Elem()
		if _, readErr := read(r, c.method, got); err != nil || readErr != nil || got.Interface() != c.want {
			t.Errorf("%s: %+v, %v, %v, want %+v", c.rule, got, err, readErr, c.want)
		}
	}
}
