package testharness

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/verge-id/verge/core/web"
)

// Response is one answer, read whole.
type Response struct {
	Request     *http.Request
	RequestBody []byte
	Status      int
	Header      http.Header
	Body        []byte
}

// Code is the code of an error answer, "" on any other.
func (r *Response) Code() string { return r.Text("code") }

// Details are the names of the bad fields of an error answer.
func (r *Response) Details() []string {
	var e struct {
		Details []struct {
			Field string `json:"field"`
		} `json:"details"`
	}
	json.Unmarshal(r.Body, &e)
	var names []string
	for _, d := range e.Details {
		names = append(names, d.Field)
	}
	return names
}

// Text is a string member of the body, "" if it has none of that name.
func (r *Response) Text(name string) string {
	s, _ := r.JSON()[name].(string)
	return s
}

// JSON is the body as an object, nil if it is none.
func (r *Response) JSON() map[string]any {
	var m map[string]any
	if json.Unmarshal(r.Body, &m) != nil {
		return nil
	}
	return m
}

// Headers makes a header of pairs: Headers("Origin", "https://a.example").
func Headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// Bearer is the header that carries a key.
func Bearer(key string) http.Header { return Headers("Authorization", "Bearer "+key) }

// Do sends one request to the service and follows no redirect. target is a
// path with its query, or a whole URL. The request has only the headers of
// header and those that HTTP itself needs.
func (h *Harness) Do(method, target string, header http.Header, body []byte) *Response {
	h.t.Helper()
	if strings.HasPrefix(target, "/") {
		target = h.BaseURL + target
	}
	return h.do(method, target, header, body)
}

// Admin sends one request to the admin API with the operator's token. body
// becomes JSON; nil is no body. pairs are names and values of further headers, as of Headers.
func (h *Harness) Admin(method, path string, body any, pairs ...string) *Response {
	h.t.Helper()
	var b []byte
	if body != nil {
		b = h.marshal(body)
	}
	return h.do(method, h.adminAt+path, Headers(append(pairs, "Authorization", "Bearer "+h.OperatorToken)...),
		b)
}

// do fails the test if there is no answer, and returns status 0. It does not
// end the test, because the caller may not be the test's own goroutine.
func (h *Harness) do(method, url string, header http.Header, body []byte) *Response {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		h.t.Errorf("testharness: %v", err)
		return &Response{}
	}
	req.Header = header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	resp, err := h.client.Do(req)
	if err != nil {
		h.t.Errorf("testharness: %s %s: %v", method, req.URL.Path, err)
		return &Response{Request: req}
	}
	defer resp.Body.Close()
	r := &Response{Request: req, RequestBody: body, Status: resp.StatusCode, Header: resp.Header}
	if r.Body, err = io.ReadAll(resp.Body); err != nil {
		h.t.Errorf("testharness: %s %s: %v", method, req.URL.Path, err)
	}
	if h.opts.Observe != nil {
		h.opts.Observe(r)
	}
	return r
}

func (h *Harness) marshal(v any) []byte {
	h.t.Helper()
	b, err := json.Marshal(v)
	h.must(err)
	return b
}

// Body is a request body by field. A nil value makes Start omit a field, even one with a default.
type Body map[string]any

// Started is the response of start.
type Started struct {
	SessionID   string `json:"session_id"`
	RedirectURL string `json:"redirect_url"`
	ExpiresAt   string `json:"expires_at"`
}

// StartBody returns the body of Start: integration L1 and Callback, with the fields of change added or
// replaced.
func (h *Harness) StartBody(change Body) []byte {
	h.t.Helper()
	body := Body{"integration_id": h.Publisher.L1.ID, "callback_url": Callback}
	maps.Copy(body, change)
	maps.DeleteFunc(body, func(_ string, v any) bool { return v == nil })
	return h.marshal(body)
}

// TryStart asks for a session with the publisher's secret key, and returns any
// answer.
func (h *Harness) TryStart(change Body) *Response {
	h.t.Helper()
	return h.Do("POST", web.StartPath, Bearer(h.Publisher.SecretKey), h.StartBody(change))
}

// Start is TryStart, but any answer other than a session fails the test.
func (h *Harness) Start(change Body) Started {
	h.t.Helper()
	return h.started(h.TryStart(change))
}

func (h *Harness) started(r *Response) (s Started) {
	h.t.Helper()
	if r.Status != 200 {
		h.t.Fatalf("testharness: start: %d %s", r.Status, r.Body)
	}
	h.must(json.Unmarshal(r.Body, &s))
	return s
}

// Validate exchanges a result token with the publisher's secret key.
func (h *Harness) Validate(resultToken string) *Response {
	h.t.Helper()
	return h.ValidateAs(Bearer(h.Publisher.SecretKey), resultToken)
}

// ValidateAs is Validate with another header.
func (h *Harness) ValidateAs(header http.Header, resultToken string) *Response {
	h.t.Helper()
	return h.Do("POST", web.ValidatePath, header, h.marshal(Body{"result_token": resultToken}))
}

// Reconcile asks for the state of a session with the publisher's secret key.
func (h *Harness) Reconcile(sessionID string) *Response {
	h.t.Helper()
	return h.Do("GET", web.SessionsPath+sessionID, Bearer(h.Publisher.SecretKey), nil)
}

// Approve opens a session in a browser, approves it, and returns the publisher's callback request.
func (h *Harness) Approve(s Started) *Return {
	h.t.Helper()
	back := h.Open(s.RedirectURL).Submit("approve").Callback
	if back == nil {
		h.t.Fatalf("testharness: the session %s was not approved", s.SessionID)
	}
	return back
}

// MakeReady runs the signed webhook test of an integration against the Sink
// and fails the test if it does not report Ready.
func (h *Harness) MakeReady(i *Integration) {
	h.t.Helper()
	r := h.Admin("POST", "/admin/v1/integrations/"+i.ID+"/test", nil)
	if ready, _ := r.JSON()["ready"].(bool); r.Status != 200 || !ready {
		h.t.Fatalf("testharness: integration %s is not ready: %s", i.ID, r.Body)
	}
}
