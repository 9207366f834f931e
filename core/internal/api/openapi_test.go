package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/schema_validation"
	"github.com/pb33f/libopenapi/datamodel/high/base"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"
	"go.yaml.in/yaml/v4"

	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
)

func readOpenAPI(t *testing.T) (libopenapi.Document, *v3.Document) {
	t.Helper()
	document, err := libopenapi.NewDocument(openAPI)
	if err != nil {
		t.Fatal(err)
	}
	model, err := document.BuildV3Model()
	if err != nil {
		t.Fatal(err)
	}
	return document, &model.Model
}

func TestOpenAPIIsValid(t *testing.T) {
	document, _ := readOpenAPI(t)
	v, errs := validator.NewValidator(document)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if ok, problems := v.ValidateDocument(); !ok {
		for _, p := range problems {
			t.Error(p)
		}
	}
}

// operations calls visit for every operation and webhook.
func operations(doc *v3.Document, visit func(name string, op *v3.Operation)) {
	for path, item := range doc.Paths.PathItems.FromOldest() {
		for method, op := range item.GetOperations().FromOldest() {
			visit(strings.ToUpper(method)+" "+path, op)
		}
	}
	for name, item := range doc.Webhooks.FromOldest() {
		visit("webhook "+name, item.Post)
	}
}

func TestOpenAPIExamplesFitTheirSchemas(t *testing.T) {
	_, doc := readOpenAPI(t)
	schemas := schema_validation.NewSchemaValidator()
	seen := 0
	check := func(where string, proxy *base.SchemaProxy, example *yaml.Node) {
		var value any
		if err := example.Decode(&value); err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		seen++
		if ok, problems := schemas.ValidateSchemaObject(proxy.Schema(), value); !ok {
			t.Errorf("%s: %v", where, problems)
		}
	}
	content := func(where string, media *v3.MediaType) {
		if media.Example == nil && media.Examples.Len() == 0 &&
			!strings.HasSuffix(where, "application/yaml") {
			t.Errorf("%s: no example", where)
		}
		if media.Example != nil {
			check(where, media.Schema, media.Example)
		}
		for name, example := range media.Examples.FromOldest() {
			check(where+" "+name, media.Schema, example.Value)
		}
	}
	operations(doc, func(name string, op *v3.Operation) {
		if op.RequestBody != nil && op.Deprecated == nil {
			for kind, media := range op.RequestBody.Content.FromOldest() {
				content(name+" request "+kind, media)
			}
		}
		for _, p := range op.Parameters {
			if p.Example != nil {
				check(name+" "+p.Name, p.Schema, p.Example)
			}
		}
		for status, response := range op.Responses.Codes.FromOldest() {
			for kind, media := range response.Content.FromOldest() {
				content(name+" "+status+" "+kind, media)
			}
			for header, h := range response.Headers.FromOldest() {
				if h.Example != nil {
					check(name+" "+status+" "+header, h.Schema, h.Example)
				}
			}
		}
	})
	if seen < 100 {
		t.Errorf("only %d examples were checked", seen)
	}
}

// TestOpenAPIStatuses is contract 5's table, by operation.
func TestOpenAPIStatuses(t *testing.T) {
	_, doc := readOpenAPI(t)
	want := map[string]string{
		"POST /api/v1/verify/start": "200 400 401 403 404 405 408 409 413 414 415 " +
			"429 500 502 503",
		"OPTIONS /api/v1/verify/start":            "204 403 405 500 503",
		"POST /api/v1/verify/validate":            "200 400 401 403 405 408 409 410 413 414 415 429 500 503",
		"GET /api/v1/verify/sessions/{sessionId}": "200 400 401 403 404 429 503", // contract 6
		"GET /api/v1/openapi.yaml":                "200 405",
		"GET /api/v1/verify/test-events":          "200 304 400 401 403 404 405 429 500 503",
		"GET /docs/events.json":                   "200 405",
		"webhook verification.started":            "2XX 401 4XX 5XX",
		"webhook verification.completed":          "2XX 401 4XX 5XX",
		"webhook verification.failed":             "2XX 401 4XX 5XX",
		"webhook verification.expired":            "2XX 401 4XX 5XX",
		"webhook verification.cancelled":          "2XX 401 4XX 5XX",
		"webhook webhook.failing":                 "2XX 401 4XX 5XX",
	}
	headers := map[string][]string{
		"401": {"WWW-Authenticate"},
		"405": {"Allow"},
		"429": {"Retry-After", "RateLimit", "RateLimit-Policy"},
		"503": {"Retry-After"},
	}
	got := map[string]string{}
	operations(doc, func(name string, op *v3.Operation) {
		var statuses []string
		for status, response := range op.Responses.Codes.FromOldest() {
			statuses = append(statuses, status)
			if strings.HasPrefix(name, "webhook") {
				continue
			}
			for _, header := range append(headers[status], "X-Request-Id") {
				if _, has := response.Headers.Get(header); !has {
					t.Errorf("contract 4, 5: %s %s has no %s", name, status, header)
				}
			}
		}
		slices.Sort(statuses)
		got[name] = strings.Join(statuses, " ")
	})
	if !maps.Equal(got, want) {
		t.Errorf("contract 5:\n got %v\nwant %v", got, want)
	}
}

// TestOpenAPISchemasAreStrict gives schemas what they must reject, and what
// contract 3 says they must not.
func TestOpenAPISchemasAreStrict(t *testing.T) {
	_, doc := readOpenAPI(t)
	schemas := schema_validation.NewSchemaValidator()
	const integration = `"integration_id":"3f0e6a52-6f0a-4c1e-9a53-0d6c2f3b7a11"`
	const callback = `"callback_url":"https://www.publisher.example/return"`
	const failure = `"code":"INTERNAL","error_code":"INTERNAL","error":"x","message":"x","request_id":"req_1"`
	event := func(typ, data string) string {
		return fmt.Sprintf(`{"id":"evt_6f1c8a52-0d8e-4c53-9a53-0d6f2b1f7c11","type":%q,`+
			`"created_at":"2026-11-20T22:10:00.000Z","schema_version":"2026-01-07","publisher_id":"pub_1",`+
			`"integration_id":"int_3f0e6a52-6f0a-4c1e-9a53-0d6c2f3b7a11","session_id":"svc_sess_1",`+
			`"test":false,"idempotency_key":"svc_sess_1:%s","data":%s}`, typ, typ, data)
	}
	requests := []string{"StartRequest", "ValidateRequest"} // contract 3: unknown members are ignored
	for name, proxy := range doc.Components.Schemas.FromOldest() {
		s := proxy.Schema()
		if s.Properties == nil {
			continue
		}
		closed := s.AdditionalProperties != nil && s.AdditionalProperties.IsB() &&
			!s.AdditionalProperties.B ||
			s.UnevaluatedProperties != nil && s.UnevaluatedProperties.IsB() && !s.UnevaluatedProperties.B
		if closed == slices.Contains(requests, name) {
			t.Errorf("%s: closed is %v", name, closed)
		}
	}
	for _, c := range []struct {
		rule, schema, json string
		want               bool
	}{
		{"contract 3: unknown members of a request are ignored", "StartRequest",
			`{` + integration + `,` + callback + `,"more":1}`, true},
		{"contract 8: an empty state counts as given", "StartRequest",
			`{` + integration + `,` + callback + `,"state":""}`, true},
		{"contract 8: state of any text", "StartRequest",
			`{` + integration + `,` + callback + `,"state":"é😀 "}`, true},
		{"contract 8: state has no control characters", "StartRequest",
			`{` + integration + `,` + callback + `,"state":"a\u0085"}`, false},
		{"contract 8: state over its length", "StartRequest",
			`{` + integration + `,` + callback + `,"state":"` + strings.Repeat("a", 1025) + `"}`, false},
		{"contract 8: external_user_id over its length", "StartRequest",
			`{` + integration + `,` + callback + `,"external_user_id":"` + strings.Repeat("a", 257) + `"}`, false},
		{"contract 8: callback_url over its length", "StartRequest",
			`{` + integration + `,"callback_url":"https://p.example/` + strings.Repeat("a", 2048) + `"}`, false},
		{"contract 8: callback_url has no fragment", "StartRequest",
			`{` + integration + `,"callback_url":"https://p.example/#"}`, false},
		{"contract 10: language is one of six", "StartRequest",
			`{` + integration + `,` + callback + `,"language":"nl"}`, false},
		{"spec: integration_id is required", "StartRequest", `{` + callback + `}`, false},
		{"spec: callback_url is required", "StartRequest", `{` + integration + `}`, false},
		{"spec: integration_id is a UUID", "StartRequest",
			`{"integration_id":"int_3f0e6a52-6f0a-4c1e-9a53-0d6c2f3b7a11",` + callback + `}`, false},
		{"contract 3: an optional member may be null", "StartRequest",
			`{` + integration + `,` + callback +
				`,"state":null,"external_user_id":null,"language":null,"public_key":null}`, true},
		{"contract 3: a required member may not be null", "StartRequest",
			`{"integration_id":null,` + callback + `}`, false},
		{"contract 3: the result token may not be null", "ValidateRequest", `{"result_token":null}`, false},
		{"spec: result_token has its prefix", "ValidateRequest", `{"result_token":"svc_sess_1"}`, false},
		{"contract 5: an error", "Error", `{` + failure + `}`, true},
		{"contract 5: an error is closed", "Error", `{` + failure + `,"session_id":"svc_sess_1"}`, false},
		{"contract 5: the error of 502 has session_id", "ProviderUnavailableError",
			`{` + failure + `,"session_id":"svc_sess_1"}`, true},
		{"contract 5: the error of 502 needs session_id", "ProviderUnavailableError", `{` + failure + `}`, false},
		{"spec: an event", "StartedEvent",
			event("verification.started", `{"status":"started","expires_at":"2026-11-20T22:20:00.000Z"}`), true},
		{"contract 29: a test's event describes itself", "StartedEvent",
			event("verification.started",
				`{"status":"started","expires_at":"2026-11-20T22:20:00.000Z","message":"x"}`), true},
		{"spec: an event is closed", "StartedEvent",
			strings.Replace(event("verification.started",
				`{"status":"started","expires_at":"2026-11-20T22:20:00.000Z"}`), "{", `{"more":1,`, 1), false},
		{"spec: an event of another type", "StartedEvent",
			event("verification.expired", `{"status":"started","expires_at":"2026-11-20T22:20:00.000Z"}`), false},
		{"spec: another event's data", "FailedEvent",
			event("verification.failed", `{"status":"expired","expires_at":"2026-11-20T22:20:00.000Z"}`), false},
		{"spec: a failure code is one of five", "FailedEvent",
			event("verification.failed", `{"status":"failed","failure":{"code":"OTHER","message":"x"}}`), false},
		{"spec: cancelled is kept", "CancelledEvent",
			event("verification.cancelled", `{"status":"cancelled"}`), true},
		{"spec, Event types: an event of any type", "Event",
			event("verification.cancelled", `{"status":"cancelled"}`), true},
		{"spec, Event types: an event of no type", "Event",
			event("verification.other", `{"status":"cancelled"}`), false},
	} {
		proxy, found := doc.Components.Schemas.Get(c.schema)
		if !found {
			t.Fatal(c.schema)
		}
		if ok, problems := schemas.ValidateSchemaString(proxy.Schema(), c.json); ok != c.want {
			t.Errorf("%s: valid is %v, want %v: %v", c.rule, ok, c.want, problems)
		}
	}
}

// TestOpenAPIIsWhatTheCodeWrites holds the description against the types that the handlers marshal.
func TestOpenAPIIsWhatTheCodeWrites(t *testing.T) {
	_, doc := readOpenAPI(t)
	schema := func(name string) *base.Schema {
		proxy, found := doc.Components.Schemas.Get(name)
		if !found {
			t.Fatalf("no schema %s", name)
		}
		return proxy.Schema()
	}
	for name, value := range map[string]any{
		"StartResponse":    startResponse{},
		"ValidateResponse": validateResponse{},
		"Session":          reconcileResponse{},
		"Error": json.RawMessage(
			(&web.Error{Details: []web.FieldError{{}}}).Body("x", "x")),
		"ProviderUnavailableError": json.RawMessage((&web.Error{Session: "x"}).Body("x", "x")),
		"ErrorDetail":              web.FieldError{},
		"TestEvents":               testEventsResponse{},
	} {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		var members map[string]any
		if err := json.Unmarshal(text, &members); err != nil {
			t.Fatal(err)
		}
		got, want := slices.Sorted(maps.Keys(members)),
			slices.Sorted(schema(name).Properties.KeysFromOldest())
		if !slices.Equal(got, want) {
			t.Errorf("%s: the code writes %v, the description has %v", name, got, want)
		}
	}

	values := func(s *base.Schema) (list []string) {
		for _, v := range s.Enum {
			list = append(list, v.Value)
		}
		slices.Sort(list)
		return list
	}
	var codes []string
	ofOperators := []web.Code{web.PreconditionFailed, web.ModuleRejected, web.BackupRejected}
	for _, code := range web.Codes() {
		if !slices.Contains(ofOperators, code) {
			codes = append(codes, string(code))
		}
	}
	slices.Sort(codes)
	if got := values(schema("ErrorCode")); !slices.Equal(got, codes) {
		t.Errorf("contract 5: the description has the codes %v, the code %v", got, codes)
	}
	detail, _ := schema("ErrorDetail").Properties.Get("code")
	want := []string{detailRequired, detailType, detailFormat, detailLength, detailValue, detailConflict}
	slices.Sort(want)
	if got := values(detail.Schema()); !slices.Equal(got, want) {
		t.Errorf("contract 5: the description has the detail codes %v, the code %v", got, want)
	}
}

func TestOpenAPIFitsTheEvents(t *testing.T) {
	_, doc := readOpenAPI(t)
	schemas := schema_validation.NewSchemaValidator()
	at := time.Date(2026, 11, 20, 22, 10, 0, 0, time.UTC)
	given := "é😀"
	head := webhook.Head{ID: "evt_6f1c8a52-0d8e-4c53-9a53-0d6f2b1f7c11", CreatedAt: at, PublisherID: "pub_1",
		IntegrationID: "3f0e6a52-6f0a-4c1e-9a53-0d6c2f3b7a11", SessionID: "svc_sess_1", Test: true}
	for name, events := range map[string][]webhook.Event{
		"StartedEvent": {webhook.Started(head, at)},
		"CompletedEvent": {webhook.Completed(head, "L1", 25, nil, nil),
			webhook.Completed(head, "L2", 25, &given, &given)},
		"FailedEvent": {webhook.Failed(head, webhook.FailureUnknown, "x", nil, nil),
			webhook.Failed(head, webhook.FailureMaxAttempts, "x", &given, &given)},
		"ExpiredEvent": {webhook.Expired(head, at)},
		"Event":        testEvents(t, head),
	} {
		proxy, _ := doc.Components.Schemas.Get(name)
		for _, event := range events {
			if ok, problems := schemas.ValidateSchemaString(proxy.Schema(), string(event.Body())); !ok {
				t.Errorf("spec: %s does not fit %s: %v", name, event.Body(), problems)
			}
		}
	}
}

// testEvents returns a test event of each type.
func testEvents(t *testing.T, head webhook.Head) (events []webhook.Event) {
	t.Helper()
	for _, typ := range webhook.Types() {
		event, ok := webhook.TestEvent(head, typ, "L2", 25)
		if !ok {
			t.Fatal(typ)
		}
		events = append(events, event)
	}
	return events
}

// The examples can be used to test a receiver: every signature is valid, and every event matches the
// description.
func TestOpenAPI_EventExamples(t *testing.T) {
	var file struct {
		Secret   string
		Now      int64
		Examples []struct {
			Event   json.RawMessage
			Body    string
			Headers map[string]string
		}
	}
	text := served(t, standard, ExamplesPath)
	if err := json.Unmarshal([]byte(text), &file); err != nil {
		t.Fatal(err)
	}
	_, doc := readOpenAPI(t)
	schemas := schema_validation.NewSchemaValidator()
	whole, _ := doc.Components.Schemas.Get("EventExamples")
	if ok, problems := schemas.ValidateSchemaString(whole.Schema(), text); !ok {
		t.Errorf("the file does not fit EventExamples: %v", problems)
	}
	var types []string
	for _, e := range file.Examples {
		header := http.Header{}
		for name, value := range e.Headers {
			header.Set(name, value)
		}
		if err := webhook.Verify(file.Secret, header, []byte(e.Body), time.Unix(file.Now, 0), 0); err != nil {
			t.Errorf("spec, Signature: %v: %s", err, e.Body)
		}
		var event webhook.Event
		if err := json.Unmarshal([]byte(e.Body), &event); err != nil {
			t.Fatal(err)
		}
		types = append(types, event.Type)
		var compact bytes.Buffer
		if err := json.Compact(&compact, e.Event); err != nil || compact.String() != e.Body {
			t.Errorf("the event and the body differ: %s", e.Body)
		}
	}
	if got, want := fmt.Sprint(types), fmt.Sprint(webhook.Types()); got != want {
		t.Errorf("spec, Event types: %s, want %s", got, want)
	}
}

// oapi-codegen drops the schemas that no path uses. If a webhook uses one, its client does not compile.
func TestOpenAPI_SchemasOfPaths(t *testing.T) {
	t.Parallel()
	var d struct {
		Paths, Webhooks any
		Components      struct{ Schemas map[string]any }
	}
	if err := yaml.Unmarshal(openAPI, &d); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	var use func(part any)
	use = func(part any) {
		text, err := json.Marshal(part)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`#/components/schemas/(\w+)`).FindAllSubmatch(text, -1) {
			if name := string(m[1]); !used[name] {
				used[name] = true
				use(d.Components.Schemas[name])
			}
		}
	}
	use(d.Paths)
	if len(used) < 20 {
		t.Errorf("the paths use %d schemas", len(used))
	}
	ofPaths := maps.Clone(used)
	use(d.Webhooks)
	for name := range used {
		if !ofPaths[name] {
			t.Errorf("only webhooks use the schema %s: write it inline", name)
		}
	}
}
