package examples

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/testharness/wait"
)

// answer is one response of the server that an SDK asks.
type answer struct {
	status int
	header map[string]string
	body   string
	drops  bool // the connection ends without a response
	cut    bool // the connection ends in the middle of the body
	hangs  bool // no response comes in time
}

func rejection(status int, code string, header map[string]string) answer {
	return answer{status: status, header: header, body: fmt.Sprintf(
		`{"code":%q,"error_code":%q,"error":"e","message":"e","request_id":"req_1"}`, code, code)}
}

// outcome is the result of a call: of an error, its class and fields.
type outcome struct {
	Result     map[string]any `json:"result"`
	Kind       string         `json:"kind"`
	Status     int            `json:"status"`
	Code       string         `json:"code"`
	RequestID  string         `json:"request_id"`
	RetryAfter float64        `json:"retry_after"`
	SessionID  string         `json:"session_id"`
	Fields     []string       `json:"fields,omitempty"`
	Step       int            `json:"step"`
	Leaks      bool           `json:"leaks,omitempty"` // the text of the error contains the key
}

func (o outcome) String() string {
	text, _ := json.Marshal(o)
	return string(text)
}

// sdkCase is a call and the server's responses to its requests.
type sdkCase struct {
	rule     string
	does     string // start if empty
	args     map[string]string
	public   bool // with a public key, which only the Node package has
	baseURL  string
	key      string // the secret key; if empty, svc_sk_1
	answers  []answer
	requests int
	want     outcome
}

var (
	startArgs = map[string]string{"integration_id": "i", "callback_url": "https://shop.example/return",
		"state": "Zürich"}
	tokenArgs = map[string]string{"token": "svc_rt_1"}

	large  = answer{status: 200, body: `{"a":"` + strings.Repeat("a", 65<<10) + `"}`}
	good   = answer{status: 200, body: `{"session_id":"svc_sess_1"}`}
	result = outcome{Result: map[string]any{"session_id": "svc_sess_1"}}
)

var sdkCases = []sdkCase{
	{rule: "a start", args: startArgs, answers: []answer{good}, requests: 1, want: result},
	{rule: "a validate", does: "validate", args: tokenArgs, answers: []answer{good}, requests: 1,
		want: result},
	{rule: "the id of a session is one segment of the path", does: "reconcile",
		args: map[string]string{"session": "a/../b?c"}, answers: []answer{good}, requests: 1, want: result},
	{rule: "contract 5: 503 is repeated", args: startArgs,
		answers:  []answer{rejection(503, "UNAVAILABLE", map[string]string{"Retry-After": "1"}), good},
		requests: 2, want: result},
	{rule: "contract 5: 429 is repeated", args: startArgs,
		answers: []answer{rejection(429, "RATE_LIMITED", nil), good}, requests: 2, want: result},
	{rule: "a long wait is left to the caller", args: startArgs,
		answers:  []answer{rejection(429, "RATE_LIMITED", map[string]string{"Retry-After": "60"}), good},
		requests: 1, want: outcome{Kind: "ApiError", Status: 429, Code: "RATE_LIMITED", RetryAfter: 60}},
	{rule: "contract 5: a failed session is not repeated", args: startArgs,
		answers: []answer{{status: 502, body: `{"code":"PROVIDER_UNAVAILABLE","error_code":` +
			`"PROVIDER_UNAVAILABLE","error":"e","session_id":"svc_sess_2"}`}, good}, requests: 1,
		want: outcome{Kind: "ApiError", Status: 502, Code: "PROVIDER_UNAVAILABLE", SessionID: "svc_sess_2"}},
	{rule: "contract 5: an internal error is not repeated", args: startArgs,
		answers:  []answer{rejection(500, "INTERNAL", map[string]string{"X-Request-Id": "req_1"}), good},
		requests: 1, want: outcome{Kind: "ApiError", Status: 500, Code: "INTERNAL", RequestID: "req_1"}},
	{rule: "an error has its fields", args: startArgs,
		answers: []answer{{status: 400, body: `{"code":"INVALID_REQUEST","error_code":"INVALID_REQUEST",` +
			`"error":"e","details":[{"field":"state","code":"length","message":"m"}]}`}}, requests: 1,
		want: outcome{Kind: "ApiError", Status: 400, Code: "INVALID_REQUEST", Fields: []string{"state"}}},
	{rule: "contract 11: the error page of a proxy is repeated", args: startArgs,
		answers: []answer{{status: 502, body: "<h1>Bad Gateway</h1>"}, good}, requests: 2, want: result},
	{rule: "contract 11: an error of a proxy with a number as code is repeated", args: startArgs,
		answers:  []answer{{status: 503, body: `{"code":503,"message":"no healthy upstream"}`}, good},
		requests: 2, want: result},
	{rule: "an error of a proxy has no code and no details", args: startArgs,
		answers:  []answer{{status: 403, body: `{"code":"Forbidden","error":{"m":1},"details":"d"}`}},
		requests: 1, want: outcome{Kind: "ApiError", Status: 403}},
	{rule: "contract 11: a response that is cut off is repeated", does: "validate", args: tokenArgs,
		answers: []answer{{status: 200, body: good.body, cut: true}, good}, requests: 2, want: result},
	{rule: "contract 11: a lost response is repeated", does: "validate", args: tokenArgs,
		answers: []answer{{drops: true}, good}, requests: 2, want: result},
	{rule: "contract 11: a late response is repeated", args: startArgs,
		answers: []answer{{hangs: true}, good}, requests: 2, want: result},
	{rule: "repetitions end", does: "reconcile", args: map[string]string{"session": "svc_sess_1"},
		answers: []answer{{drops: true}, {drops: true}, {drops: true}, good}, requests: 3,
		want: outcome{Kind: "ConnectionError"}},
	{rule: "a response of 65 KiB is not read", args: startArgs,
		answers:  slices.Repeat([]answer{large}, 3),
		requests: 3, want: outcome{Kind: "ConnectionError"}},
	{rule: "a body that is no object is an error", args: startArgs,
		answers: []answer{{status: 200, body: "[1"}}, requests: 1,
		want: outcome{Kind: "ApiError", Status: 200}},
	{rule: "a body with many levels is an error", args: startArgs,
		answers:  []answer{{status: 200, body: strings.Repeat("[", 60<<10)}},
		requests: 1, want: outcome{Kind: "ApiError", Status: 200}},
	{rule: "a redirect is not followed", does: "reconcile", args: map[string]string{"session": "svc_sess_1"},
		answers:  []answer{{status: 302, header: map[string]string{"Location": "/elsewhere"}}, good},
		requests: 1, want: outcome{Kind: "ApiError", Status: 302}},
	{rule: "a secret key is not sent in the clear", args: startArgs, baseURL: "http://verify.example.com",
		want: outcome{Kind: "VergeError"}},
	{rule: "an address without a scheme is an error", args: startArgs, baseURL: "localhost:8080",
		want: outcome{Kind: "VergeError"}},
	{rule: "an address that is no URL is an error", args: startArgs, baseURL: "http://[::1",
		want: outcome{Kind: "VergeError"}},
	{rule: "an address with a path is an error", args: startArgs,
		baseURL: "https://verify.example.com/api/v1", want: outcome{Kind: "VergeError"}},
	{rule: "an address with a query is an error", args: startArgs, baseURL: "https://verify.example.com?a",
		want: outcome{Kind: "VergeError"}},
	{rule: "an address with a password is an error", args: startArgs,
		baseURL: "https://svc_sk_1@verify.example.com", want: outcome{Kind: "VergeError"}},
	{rule: "contract 13: white space around the key is removed", args: startArgs,
		key: "\ufeff svc_sk_1\r\n", answers: []answer{good}, requests: 1, want: result},
	{rule: "contract 13: an error does not contain the key", args: startArgs, key: "svc_sk_1\nsvc_sk_1",
		want: outcome{Kind: "VergeError"}},
	{rule: "an empty key is an error", args: startArgs, key: " ", want: outcome{Kind: "VergeError"}},
	{rule: "contract 11: a public key has no idempotency key", public: true, args: startArgs,
		answers: []answer{good}, requests: 1, want: result},
	{rule: "contract 11: a lost start with a public key is not repeated", public: true, args: startArgs,
		answers: []answer{{drops: true}, good}, requests: 1, want: outcome{Kind: "ConnectionError"}},
	{rule: "contract 5: 503 is repeated with a public key", public: true, args: startArgs,
		answers: []answer{rejection(503, "UNAVAILABLE", nil), good}, requests: 2, want: result},
}

// sdkServer gives each case the responses that it lists.
type sdkServer struct {
	t     *testing.T
	cases []sdkCase
	done  chan struct{}

	mu   sync.Mutex
	seen [][]seenRequest
}

type seenRequest struct{ method, path, body, key, auth string }

// serve responds to a request of the n-th case.
func (s *sdkServer) serve(n int, w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	at := len(s.seen[n])
	s.seen[n] = append(s.seen[n], seenRequest{r.Method, r.URL.EscapedPath(), string(body),
		r.Header.Get("Idempotency-Key"), r.Header.Get("Authorization")})
	s.mu.Unlock()
	if at >= len(s.cases[n].answers) {
		s.t.Errorf("%s: request %d", s.cases[n].rule, at+1)
		return
	}
	a := s.cases[n].answers[at]
	switch {
	case a.drops:
		panic(http.ErrAbortHandler)
	case a.hangs:
		wait.For(s.done)
		return
	}
	for name, value := range a.header {
		w.Header().Set(name, value)
	}
	if a.cut {
		w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
		w.WriteHeader(a.status)
		io.WriteString(w, a.body[:len(a.body)/2])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(a.status)
	io.WriteString(w, a.body)
}

// check compares the requests of a case with the contract.
func (s *sdkServer) check(n int, got outcome) {
	c := s.cases[n]
	if got.String() != c.want.String() {
		s.t.Errorf("%s: got %s, want %s", c.rule, got, c.want)
	}
	if len(s.seen[n]) != c.requests {
		s.t.Errorf("%s: %d requests, want %d", c.rule, len(s.seen[n]), c.requests)
	}
	for _, r := range s.seen[n] {
		if r != s.seen[n][0] {
			s.t.Errorf("%s: %+v repeats %+v", c.rule, r, s.seen[n][0])
		}
		if hasKey := r.key != ""; hasKey != (r.method == "POST" && !c.public) {
			s.t.Errorf("%s: the idempotency key %q", c.rule, r.key)
		}
		want := "Bearer svc_sk_1"
		if c.public {
			want = ""
		}
		if r.auth != want || c.public && !strings.Contains(r.body, `"public_key":"svc_pk_1"`) {
			s.t.Errorf("%s: the credential of %+v", c.rule, r)
		}
		if c.does == "reconcile" && strings.Count(r.path, "/") != 5 {
			s.t.Errorf("%s: the path is %s", c.rule, r.path)
		}
	}
}

// signed is a webhook request for an SDK to verify.
type signed struct {
	name      string
	accepted  bool
	Secret    string              `json:"secret"`
	Headers   map[string][]string `json:"headers"`
	Body      string              `json:"body"`
	Now       int64               `json:"now"`
	Tolerance int64               `json:"tolerance"`
}

// signedRequests returns both files of vectors. The first is an event.
func signedRequests(t *testing.T) (all []signed) {
	t.Helper()
	read := func(name string, file any) {
		text, err := os.ReadFile(filepath.Join("../../core/webhook/testdata", name))
		if err == nil {
			err = json.Unmarshal(text, file)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var standard struct {
		Vectors []struct {
			Name, Secret string
			Headers      map[string]string
			Body         string `json:"body_base64"`
			Now          int64
			Accepted     bool
		}
	}
	read("standard_vectors.json", &standard)
	for _, v := range standard.Vectors {
		headers := map[string][]string{}
		for name, value := range v.Headers {
			headers[name] = []string{value}
		}
		all = append(all, signed{v.Name, v.Accepted, v.Secret, headers, v.Body, v.Now, 0})
	}
	var own struct {
		Vectors []struct {
			Name, Secret string
			Headers      map[string][]string
			Body         string `json:"body_base64"`
			Now          int64
			Tolerance    int64 `json:"tolerance_seconds"`
			Step         int
		}
	}
	read("signature_vectors.json", &own)
	for _, v := range own.Vectors {
		all = append(all, signed{v.Name, v.Step == 0, v.Secret, v.Headers, v.Body, v.Now, v.Tolerance})
	}
	return all
}

// driven are the outcomes that a driver prints.
type driven struct {
	Requests []outcome `json:"requests"`
	Calls    []outcome `json:"calls"`
	Event    outcome   `json:"event"`

	NoSecret    outcome `json:"no_secret"`    // of an event, without a secret
	WhiteSecret string  `json:"white_secret"` // the text of the error if the secret ends with a line break
	ParsedBody  outcome `json:"parsed_body"`  // of an event whose body was parsed
	Refused     string  `json:"refused"`      // the text of the error of a port that Node.js rejects
	Aborted     string  `json:"aborted"`      // the name of the error if the caller aborts

	Types map[string]map[string]struct {
		Null   bool
		Values []string
	} `json:"types"`
}

// drive has a driver verify all vectors and make the calls of the cases, and checks the outcomes.
func drive(t *testing.T, cmd *exec.Cmd, cases []sdkCase) driven {
	t.Helper()
	s := &sdkServer{t: t, cases: cases, done: make(chan struct{}), seen: make([][]seenRequest, len(cases))}
	var calls []map[string]any
	for n, c := range cases {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.serve(n, w, r)
		}))
		t.Cleanup(server.Close)
		call := map[string]any{"base_url": server.URL + "/", "secret_key": "svc_sk_1",
			"does": c.does, "args": c.args, "timeout": 60}
		if slices.ContainsFunc(c.answers, func(a answer) bool { return a.hangs }) {
			call["timeout"] = 3
		}
		if c.does == "" {
			call["does"] = "start"
		}
		if c.public {
			call["public_key"] = "svc_pk_1"
		}
		if c.baseURL != "" {
			call["base_url"] = c.baseURL
		}
		if c.key != "" {
			call["secret_key"] = c.key
		}
		calls = append(calls, call)
	}
	t.Cleanup(func() { close(s.done) })
	requests := signedRequests(t)
	input, err := json.Marshal(map[string]any{"requests": requests, "calls": calls})
	if err != nil {
		t.Fatal(err)
	}
	var failed bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), &failed
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &failed)
	}
	var got driven
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if len(got.Requests) != len(requests) || len(got.Calls) != len(cases) {
		t.Fatalf("%d of %d requests and %d of %d calls", len(got.Requests), len(requests), len(got.Calls),
			len(cases))
	}
	for n, r := range requests {
		o := got.Requests[n]
		rejected := o.Kind == "SignatureError" && o.Step != 0
		if rejected == r.accepted || !rejected && o.Kind != "" {
			t.Errorf("contract 51: %s: %s", r.name, o)
		}
	}
	if got.Event.Result["type"] != "verification.started" {
		t.Errorf("contract 51: the event is %s", got.Event)
	}
	if got.NoSecret.Step != 4 || got.ParsedBody.Kind != "VergeError" ||
		!strings.Contains(got.WhiteSecret, "white space") {
		t.Errorf("without a secret %s, with a line break %q, and with a parsed body %s", got.NoSecret,
			got.WhiteSecret, got.ParsedBody)
	}
	for n, o := range got.Calls {
		s.check(n, o)
	}
	return got
}

func TestSDK_Node(t *testing.T) {
	long.Skip(t, "TestSDK_Node")
	node := testenv.Program(t, "node")
	dir := t.TempDir()
	link(t, nodeSDK(t), filepath.Join(dir, "node_modules/@verge-id/sdk"))
	if err := os.CopyFS(dir, os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(node, "drive.mjs")
	cmd.Dir = dir
	got := drive(t, cmd, sdkCases)
	if got.Aborted != "AbortError" {
		t.Errorf("an abort during the wait: %q", got.Aborted)
	}
	if !strings.Contains(got.Refused, "bad port") {
		t.Errorf("a port that Node.js rejects: %q", got.Refused)
	}

	// The types of the package equal those of the description.
	write(t, filepath.Join(dir, "openapi.yaml"), string(description(t)))
	for _, args := range [][]string{
		{"openapi-typescript", "openapi.yaml", "-o", "openapi.ts"},
		{"tsc", "-p", "."},
	} {
		if said, err := output(dir, filepath.Join(toolModules, ".bin", args[0]), args[1:]...); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
	}
	info, err := os.Stat(filepath.Join(nodeSDK(t), "dist/button.js"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 3<<10 {
		t.Errorf("the button has %d bytes, more than 3 KiB", info.Size())
	}
}

// description returns the OpenAPI description, as a service serves it.
func description(t *testing.T) []byte {
	t.Helper()
	response := testharness.New(t, nil).Do("GET", "/api/v1/openapi.yaml", nil, nil)
	if response.Status != 200 {
		t.Fatalf("the description: %d", response.Status)
	}
	return response.Body
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSDK_Python(t *testing.T) {
	long.Skip(t, "TestSDK_Python")
	site := pythonSDK(t)
	cmd := exec.Command(debianPython, "testdata/drive.py")
	cmd.Env = append(os.Environ(), "PYTHONPATH="+site, "PYTHONDONTWRITEBYTECODE=1")
	got := drive(t, cmd, slices.DeleteFunc(slices.Clone(sdkCases), func(c sdkCase) bool { return c.public }))
	var file struct {
		Components struct {
			Schemas map[string]schema `yaml:"schemas"`
		} `yaml:"components"`
		Webhooks map[string]struct {
			Post struct {
				Request struct {
					Content map[string]struct {
						Schema schema `yaml:"schema"`
					} `yaml:"content"`
				} `yaml:"requestBody"`
			} `yaml:"post"`
		} `yaml:"webhooks"`
	}
	if err := yaml.Unmarshal(description(t), &file); err != nil {
		t.Fatal(err)
	}
	schemas := file.Components.Schemas
	described := map[string][]schema{}
	for _, name := range []string{"StartResponse", "ValidateResponse", "Session"} {
		described[name] = []schema{schemas[name]}
	}
	events := []schema{file.Webhooks["webhook.failing"].Post.Request.Content["application/json"].Schema}
	for _, name := range []string{"Started", "Completed", "Failed", "Expired", "Cancelled"} {
		events = append(events, schemas[name+"Event"])
	}
	for _, event := range events {
		described["Event"] = append(described["Event"], event)
		described["EventData"] = append(described["EventData"], event.Properties["data"])
	}
	described["Result"] = []schema{schemas["CompletedEvent"].Properties["data"].Properties["result"]}
	described["Failure"] = []schema{schemas["FailedEvent"].Properties["data"].Properties["failure"]}
	for name, wants := range described {
		for field, has := range got.Types[name] {
			var null bool
			values := map[string]bool{}
			known := false
			for _, want := range wants {
				property, ok := want.Properties[field]
				known = known || ok
				property.collect(schemas, &null, values)
			}
			delete(values, "2026-01-07") // later versions are read, too
			if !known || null != has.Null || !slices.Equal(slices.Sorted(maps.Keys(values)), has.Values) {
				t.Errorf("%s.%s: the package has %+v, and the description %v, null %v", name, field, has,
					values, null)
			}
		}
		for _, want := range wants {
			for field := range want.Properties {
				if _, ok := got.Types[name][field]; !ok {
					t.Errorf("%s lacks %s", name, field)
				}
			}
		}
	}
}

// schema is a schema of the description, as far as types need it.
type schema struct {
	Ref        string            `yaml:"$ref"`
	Type       any               `yaml:"type"`
	Enum       []any             `yaml:"enum"`
	AnyOf      []schema          `yaml:"anyOf"`
	Properties map[string]schema `yaml:"properties"`
}

// collect adds the values of the schema, and whether it may be null.
func (s schema) collect(all map[string]schema, null *bool, values map[string]bool) {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		all[name].collect(all, null, values)
	}
	for _, one := range s.AnyOf {
		one.collect(all, null, values)
	}
	types, _ := s.Type.([]any)
	*null = *null || s.Type == "null" || slices.Contains(types, any("null"))
	for _, value := range s.Enum {
		if text, ok := value.(string); ok {
			values[text] = true
		}
	}
}

// TestSDK_IsSmall: the client of each language has at most 400 lines. The button has its own limit, in bytes.
func TestSDK_IsSmall(t *testing.T) {
	for _, path := range []string{"node/src/index.ts", "python/verge_id/__init__.py"} {
		text, err := os.ReadFile(filepath.Join("../../edge/sdk", path))
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(text, []byte("\n")); n == 0 || n > 400 {
			t.Errorf("%s has %d lines, want at most 400", path, n)
		}
	}
}
