package conformance_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/schema_validation"
	"github.com/pb33f/libopenapi/datamodel/high/base"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"

	"github.com/verge-id/verge/core/admin"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/testharness"
)

// description is core/internal/api/openapi.yaml, read once for all tests.
type description struct {
	validator validator.Validator
	paths     *v3.Paths
	events    map[string]*base.Schema // by type
	schemas   schema_validation.SchemaValidator
}

// ofOperators is core/admin/openapi.yaml, read once for all tests.
var ofOperators = sync.OnceValues(func() (validator.Validator, error) {
	document, err := libopenapi.NewDocument(admin.OpenAPI())
	if err != nil {
		return nil, err
	}
	model, err := document.BuildV3Model()
	if err != nil {
		return nil, err
	}
	return validator.NewValidatorFromV3Model(&model.Model), nil
})

var readDescription = sync.OnceValues(func() (*description, error) {
	text, err := os.ReadFile("../../core/internal/api/openapi.yaml")
	if err != nil {
		return nil, err
	}
	document, err := libopenapi.NewDocument(text)
	if err != nil {
		return nil, err
	}
	model, err := document.BuildV3Model()
	if err != nil {
		return nil, err
	}
	v := validator.NewValidatorFromV3Model(&model.Model)
	d := &description{validator: v, paths: model.Model.Paths, events: map[string]*base.Schema{},
		schemas: schema_validation.NewSchemaValidator()}
	for _, typ := range []string{
		webhook.TypeStarted, webhook.TypeCompleted, webhook.TypeFailed, webhook.TypeExpired,
	} {
		name := strings.TrimPrefix(typ, "verification.")
		proxy, _ := model.Model.Components.Schemas.Get(strings.ToUpper(name[:1]) + name[1:] + "Event")
		d.events[typ] = proxy.Schema()
	}
	return d, nil
})

// describer returns the validator for the response to a request, or nil if no description has its operation.
func describer(r *testharness.Response) (validator.Validator, error) {
	if strings.Contains(strings.ToLower(r.Request.URL.EscapedPath()), "%2f") {
		return nil, nil // the judge takes an escaped slash for a slash, and the service does not
	}
	req := &web.Request{Method: r.Request.Method, Path: r.Request.URL.Path}
	route, _, _ := (*admin.Admin)(nil).Routes().Find(req)
	if route != nil && r.Status != http.StatusRequestURITooLong &&
		strings.HasPrefix(req.Path, admin.Root+"v1/") && len(route.Methods) > 0 &&
		!strings.Contains(req.Path, "//") {
		return ofOperators()
	}
	if !described(r) {
		return nil, nil
	}
	d, err := readDescription()
	if err != nil {
		return nil, err
	}
	return d.validator, nil
}

// described reports whether the public description has the request's operation.
func described(r *testharness.Response) bool {
	if r.Status == http.StatusRequestURITooLong { // the request reached no operation
		return false
	}
	switch path := r.Request.URL.Path; r.Request.Method {
	case "POST":
		return path == web.StartPath || path == web.ValidatePath
	case "OPTIONS":
		return path == web.StartPath
	case "GET":
		id, ok := strings.CutPrefix(path, web.SessionsPath)
		return path == web.TestsPath || ok && id != "" && !strings.Contains(id, "/")
	}
	return false
}

// checkDescribed checks an answer against the description. If it is a success, it
// checks the request too: the description must allow what the service accepts.
func checkDescribed(t testing.TB, r *testharness.Response) {
	t.Helper()
	judge, err := describer(r)
	if err != nil {
		t.Fatal(err)
	}
	if judge == nil {
		return
	}
	req := r.Request.Clone(r.Request.Context())
	req.Body = io.NopCloser(bytes.NewReader(r.RequestBody))
	answer := &http.Response{StatusCode: r.Status, Header: r.Header,
		Body: io.NopCloser(bytes.NewReader(r.Body)), Request: req}
	if ok, problems := judge.ValidateHttpResponse(req, answer); !ok {
		for _, p := range problems {
			t.Errorf("openapi.yaml does not describe the %d to %s %s: %v\n%s", r.Status, req.Method,
				req.URL.Path, p, r.Body)
		}
	}
	if described(r) {
		checkHeaders(t, r)
	}
	if r.Status != http.StatusOK || req.Method == "GET" || len(r.RequestBody) == 0 {
		return
	}
	req.Body = io.NopCloser(bytes.NewReader(r.RequestBody))
	req.Header.Set("Content-Type", "application/json") // a missing one is taken as that
	if ok, problems := judge.GetRequestBodyValidator().ValidateRequestBody(req); !ok {
		for _, p := range problems {
			t.Errorf("openapi.yaml does not describe a request to %s that was accepted: %v\n%.300s",
				req.URL.Path, p, r.RequestBody)
		}
	}
}

// checkHeaders reports headers of a response that the public description does not list. All responses of
// start may have the headers of CORS, which only its 200 lists.
func checkHeaders(t testing.TB, r *testharness.Response) {
	t.Helper()
	d, err := readDescription()
	if err != nil {
		t.Fatal(err)
	}
	path := r.Request.URL.Path
	if strings.HasPrefix(path, web.SessionsPath) {
		path = web.SessionsPath + "{sessionId}"
	}
	responses := d.paths.PathItems.GetOrZero(path).GetOperations().GetOrZero(
		strings.ToLower(r.Request.Method)).Responses
	response := responses.Codes.GetOrZero(strconv.Itoa(r.Status))
	if response == nil {
		response = responses.Default
	}
	for _, name := range []string{"Accept-Encoding", "Allow", "ETag", "Preference-Applied", "RateLimit",
		"RateLimit-Policy", "Retry-After", "WWW-Authenticate", "X-Request-Id"} {
		if r.Header.Get(name) != "" && response.Headers.GetOrZero(name) == nil {
			t.Errorf("openapi.yaml does not list %s of the %d to %s %s", name, r.Status, r.Request.Method,
				path)
		}
	}
}

// Every event that can be sent, with the bytes that are sent.
func TestEventsAreDescribed(t *testing.T) {
	d, err := readDescription()
	if err != nil {
		t.Fatal(err)
	}
	h := newHarness(t, &opts{Configure: unlimited})
	for _, how := range []string{"approve", "reject", "withdraw", "unknown", "cancel"} {
		for _, change := range []body{
			nil,
			{"state": "s", "external_user_id": "u"},
			{"integration_id": h.Publisher.L2.ID, "state": ""},
		} {
			ending(h, h.Start(change), how)
		}
	}
	p := h.Open(h.Start(nil).RedirectURL)
	p.Submit("fail_attempt").Submit("fail_attempt").Submit("fail_attempt")
	h.MakeReady(h.Publisher.L1)
	h.Advance(time.Hour)
	seen := map[string]int{}
	for _, delivery := range h.Sink.Deliveries() {
		if delivery.Err != nil {
			continue // a negative probe
		}
		seen[delivery.Event.Type]++
		var value any
		if err := json.Unmarshal(delivery.Body, &value); err != nil {
			t.Fatal(err)
		}
		if ok, problems := d.schemas.ValidateSchemaObject(d.events[delivery.Event.Type], value); !ok {
			t.Errorf("%s: %v", delivery.Body, problems)
		}
	}
	for typ := range d.events {
		if seen[typ] < 3 {
			t.Errorf("%d of %s seen", seen[typ], typ)
		}
	}
}
