package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/schema_validation"
	"github.com/pb33f/libopenapi/datamodel/high/base"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"
	"go.yaml.in/yaml/v4"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/web"
)

// description is openapi.yaml, read once for all tests.
type description struct {
	document libopenapi.Document
	model    *v3.Document
	judge    validator.Validator
}

var described = sync.OnceValues(func() (*description, error) {
	document, err := libopenapi.NewDocument(openAPI)
	if err != nil {
		return nil, err
	}
	model, err := document.BuildV3Model()
	if err != nil {
		return nil, err
	}
	return &description{document, &model.Model, validator.NewValidatorFromV3Model(&model.Model)}, nil
})

func readOpenAPI(t testing.TB) *description {
	t.Helper()
	d, err := described()
	coretest.Must(t, err)
	return d
}

// hold fails the test if the description does not contain the response. If the response is not an error, the
// request must be described as well.
func (d *description) hold(t testing.TB, req *web.Request, resp *web.Response) {
	t.Helper()
	route, _, _ := routes.Find(req)
	if route == nil || !strings.HasPrefix(route.Pattern, operate.Prefix) || strings.Contains(req.Path, "//") {
		return // a placeholder may be empty, which no description can say
	}
	target := req.Path
	if req.Query != "" {
		target += "?" + req.Query
	}
	method := req.Method
	if method == "HEAD" { // described as GET; the server leaves out the body
		method = "GET"
	}
	asked := httptest.NewRequest(method, target, bytes.NewReader(req.Body))
	maps.Copy(asked.Header, http.Header(req.Header))
	answer := &http.Response{StatusCode: resp.Status, Header: http.Header{}, Request: asked,
		Body: io.NopCloser(bytes.NewReader(resp.Body))}
	maps.Copy(answer.Header, http.Header(resp.Header))
	answer.Header.Set("X-Request-Id", "req_x") // core.Service sets it
	if ok, problems := d.judge.ValidateHttpResponse(asked, answer); !ok {
		for _, p := range problems {
			t.Errorf("openapi.yaml does not describe the %d to %s %s: %v\n%.300s", resp.Status, req.Method,
				target, p, resp.Body)
		}
	}
	for _, text := range badTimes(resp.Body) {
		t.Errorf("contract 2: the response of %s %s has the time %s", req.Method, target, text)
	}
	if resp.Status != 200 || len(req.Body) == 0 {
		return
	}
	asked.Body = io.NopCloser(bytes.NewReader(req.Body))
	asked.Header.Set("Content-Type", "application/json") // a missing one is taken as that
	if ok, problems := d.judge.GetRequestBodyValidator().ValidateRequestBody(asked); !ok {
		for _, p := range problems {
			t.Errorf("openapi.yaml does not describe a body that %s takes: %v\n%s", req.Path, p, req.Body)
		}
	}
}

// texts are the strings of a JSON text.
var texts = regexp.MustCompile(`"[^"\\]*"`)

// badTimes returns the times in a JSON text that are not in UTC with whole milliseconds.
func badTimes(body []byte) []string {
	var bad []string
	for _, text := range texts.FindAllString(string(body), -1) {
		text = text[1 : len(text)-1]
		at, err := time.Parse(time.RFC3339, text)
		if err == nil && text != at.UTC().Format("2006-01-02T15:04:05.000Z") {
			bad = append(bad, text)
		}
	}
	return bad
}

func TestBadTimes(t *testing.T) {
	body := `{"a":"2026-11-20T22:10:00.000Z","b":["2026-11-20T22:10:00Z","x"],"c":{"2026-11-20T22:10:00.0001Z":` +
		`"2026-11-20T22:10:00.123+01:00"}}`
	want := []string{"2026-11-20T22:10:00Z", "2026-11-20T22:10:00.0001Z", "2026-11-20T22:10:00.123+01:00"}
	if got := badTimes([]byte(body)); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestOpenAPIIsValid(t *testing.T) {
	v, errs := validator.NewValidator(readOpenAPI(t).document)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if ok, problems := v.ValidateDocument(); !ok {
		for _, p := range problems {
			t.Error(p)
		}
	}
}

// Generators of clients make types of parameters and of enumerations in schemas, and constants of values, so
// these need their own names.
func TestOpenAPI_TypeNames(t *testing.T) {
	var d struct {
		Components struct {
			Parameters      map[string]any
			SecuritySchemes map[string]any `yaml:"securitySchemes"`
			Schemas         map[string]struct{ Properties map[string]map[string]any }
		}
	}
	coretest.Must(t, yaml.Unmarshal(openAPI, &d))
	seen := map[string]bool{}
	add := func(name string) {
		name = strings.ToLower(strings.ReplaceAll(name, "_", ""))
		if seen[name] {
			t.Errorf("two types of a generated client have the name %s", name)
		}
		seen[name] = true
	}
	for name := range d.Components.Parameters {
		add(name)
	}
	for name := range d.Components.SecuritySchemes {
		add(name)
	}
	for name, schema := range d.Components.Schemas {
		add(name)
		for property, of := range schema.Properties {
			values, found := of["enum"].([]any)
			if found {
				add(name + property)
			}
			for _, value := range values {
				if d.Components.Parameters[fmt.Sprint(value)] != nil {
					t.Errorf("a parameter has the name of a value of %s, %v", property, value)
				}
			}
			for keyword, value := range of { // as of an unquoted text with a comma
				if value == nil {
					t.Errorf("%s of %s has the keyword %q without a value", property, name, keyword)
				}
			}
		}
	}
}

// Generators without a discriminator, such as ogen, distinguish the types of a list's items by required
// fields that only one of them has.
func TestOpenAPI_AlternativesDiffer(t *testing.T) {
	schemas := readOpenAPI(t).model.Components.Schemas
	list := schemas.GetOrZero("Deliveries").Schema().Properties.GetOrZero("deliveries")
	all := list.Schema().Items.A.Schema().OneOf
	for _, of := range all {
		alone := slices.DeleteFunc(slices.Clone(of.Schema().Required), func(name string) bool {
			return slices.ContainsFunc(all, func(other *base.SchemaProxy) bool {
				return other.GetReference() != of.GetReference() &&
					other.Schema().Properties.GetOrZero(name) != nil
			})
		})
		if len(alone) == 0 {
			t.Errorf("%s has no required field that the other types lack", of.GetReference())
		}
	}
}

// Every route is described, and nothing that is no route. The server responds for modules and backups, and
// the Worker for its store.
func TestOpenAPIHasEveryRoute(t *testing.T) {
	want := map[string]bool{"GET " + ModulePath: true, "POST " + ModulePath: true, "POST " + BackupPath: true,
		"GET " + StorePath: true, "POST " + StorePath: true}
	for _, r := range routes {
		for _, method := range r.Methods {
			if method != "HEAD" && strings.HasPrefix(r.Pattern, operate.Prefix) {
				want[method+" "+withoutNames(r.Pattern)] = true
			}
		}
	}
	got, ids := map[string]bool{}, map[string]bool{}
	for path, item := range readOpenAPI(t).model.Paths.PathItems.FromOldest() {
		for method, op := range item.GetOperations().FromOldest() {
			got[strings.ToUpper(method)+" "+withoutNames(path)] = true
			if op.OperationId == "" || ids[op.OperationId] || op.Summary == "" || len(op.Tags) != 1 {
				t.Errorf("%s %s needs a unique id, a summary and one tag", method, path)
			}
			ids[op.OperationId] = true
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("contract 42: described are\n%v, want\n%v", slices.Sorted(maps.Keys(got)),
			slices.Sorted(maps.Keys(want)))
	}
}

// withoutNames empties the placeholder of a path.
func withoutNames(path string) string {
	before, rest, found := strings.Cut(path, "{")
	if !found {
		return path
	}
	_, after, _ := strings.Cut(rest, "}")
	return before + "{}" + after
}

// TestOpenAPI_Counts compares the outcomes in the description and in the code.
func TestOpenAPI_Counts(t *testing.T) {
	if got := slices.Sorted(schema(t, "Counts").Properties.KeysFromOldest()); !slices.Equal(got,
		slices.Sorted(slices.Values(host.Outcomes()))) {
		t.Errorf("the description counts %v, the code %v", got, host.Outcomes())
	}
}

func schema(t testing.TB, name string) *base.Schema {
	t.Helper()
	proxy, found := readOpenAPI(t).model.Components.Schemas.Get(name)
	if !found {
		t.Fatalf("openapi.yaml has no schema %s", name)
	}
	return proxy.Schema()
}

// TestOpenAPIExamplesFitTheirSchemas also holds the example of every error against the code's own words.
func TestOpenAPIExamplesFitTheirSchemas(t *testing.T) {
	d, schemas := readOpenAPI(t), schema_validation.NewSchemaValidator()
	var told []string
	for name, response := range d.model.Components.Responses.FromOldest() {
		media, _ := response.Content.Get("application/json")
		var example struct {
			Code, Error string
			ErrorCode   string `json:"error_code" yaml:"error_code"`
		}
		var value any
		coretest.Must(t, media.Example.Decode(&value))
		text, err := json.Marshal(value)
		coretest.Must(t, err)
		coretest.Must(t, json.Unmarshal(text, &example))
		if ok, problems := schemas.ValidateSchemaObject(media.Schema.Schema(), value); !ok {
			t.Errorf("%s: %v", name, problems)
		}
		if example.Code != example.ErrorCode || example.Error == "" {
			t.Errorf("contract 5: %s: %s", name, text)
		}
		told = append(told, example.Code)
	}
	told = append(told, string(web.MethodNotAllowed)) // of no operation: another method is not described
	var codes []string
	for _, v := range schema(t, "ErrorCode").Enum {
		codes = append(codes, v.Value)
	}
	slices.Sort(told)
	slices.Sort(codes)
	if !slices.Equal(told, codes) {
		t.Errorf("contract 5: there are examples of %v, and the codes %v", told, codes)
	}
}

// Like the public description, it needs no token and does not read the store.
func TestOpenAPI_Served(t *testing.T) {
	w := newFixture(t)
	calls := w.Store.Calls()
	resp, err := w.Handle(ctx, &web.Request{Method: "GET", Path: openAPIPath, Header: web.Header{}})
	coretest.Must(t, err)
	if !bytes.Equal(resp.Body, openAPI) || resp.Header.Get(
		"Content-Type") != "application/yaml; charset=utf-8" || w.Store.Calls() != calls {
		t.Errorf("%d, %v", resp.Status, resp.Header)
	}
}
