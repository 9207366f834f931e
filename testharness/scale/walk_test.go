package scale

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/verge-id/verge/core/webhook"
)

// client sends the requests of publishers and browsers.
var client = &http.Client{
	Transport:     &http.Transport{MaxIdleConnsPerHost: 256},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// each calls do for every number below n, for as many at a time as there are users.
func each(n int, do func(i int) error) error {
	var all errgroup.Group
	var next atomic.Int64
	for range *usersFlag {
		all.Go(func() error {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return all.Wait()
}

// at returns the address of the instance for a request: the step-th one of a session.
func (d *deployment) at(session, step int) string {
	return "http://" + d.instances[(session+step)%len(d.instances)].Public
}

// send returns the response to one request, read whole.
func send(req *http.Request, want int) (body []byte, header http.Header, err error) {
	resp, err := client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	if body, err = io.ReadAll(resp.Body); err == nil && resp.StatusCode != want {
		err = fmt.Errorf("%s %s: %d %s", req.Method, req.URL.Path, resp.StatusCode, body)
	}
	return body, resp.Header, err
}

// api sends a request with the secret key, and reads the response into out.
func (d *deployment) api(at, path string, in, out any) error {
	text, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequest("POST", at+path, strings.NewReader(string(text)))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+d.key)
	req.Header.Set("Content-Type", "application/json")
	body, _, err := send(req, http.StatusOK)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, out)
}

// started is the response of start.
type started struct {
	SessionID   string `json:"session_id"`
	RedirectURL string `json:"redirect_url"`
}

func (d *deployment) startSession(at, integration string) (s started, err error) {
	return s, d.api(at, "/api/v1/verify/start", map[string]string{"integration_id": integration,
		"callback_url": "https://shop.example/return", "state": "q7Zk1v0mXo2hT5c8",
		"external_user_id": "customer-4711"}, &s)
}

var (
	hiddenInput = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)
	hopLink     = regexp.MustCompile(`<a data-hop[^>]* href="([^"]*)"`)
)

func page(address string) ([]byte, error) {
	req, err := http.NewRequest("GET", address, nil)
	if err != nil {
		return nil, err
	}
	body, _, err := send(req, http.StatusOK)
	return body, err
}

// steps are the requests of a whole session.
var steps = []string{"start", "page", "form", "page after it", "validate"}

// walk does one whole session by the requests of steps.
func (d *deployment) walk(i int, integration string) error {
	return d.walkWith(i, integration, func(int) {})
}

// walkWith is walk. It calls done with the index of each step after its response.
func (d *deployment) walkWith(i int, integration string, done func(step int)) error {
	s, err := d.startSession(d.at(i, 0), integration)
	if err != nil {
		return err
	}
	done(0)
	_, path, _ := strings.Cut(s.RedirectURL, "//")
	_, path, _ = strings.Cut(path, "/")
	text, err := page(d.at(i, 1) + "/" + path)
	if err != nil {
		return err
	}
	done(1)
	_, form, found := strings.Cut(string(text), `data-outcome="approve"`)
	if !found {
		return errors.New("the page has no form that approves")
	}
	form, _, _ = strings.Cut(form, "</form>")
	fields := url.Values{}
	for _, input := range hiddenInput.FindAllStringSubmatch(form, -1) {
		fields.Set(html.UnescapeString(input[1]), html.UnescapeString(input[2]))
	}
	req, err := http.NewRequest("POST", d.at(i, 2)+"/verify", strings.NewReader(fields.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	_, header, err := send(req, http.StatusSeeOther)
	if err != nil {
		return err
	}
	done(2)
	if text, err = page(d.at(i, 3) + header.Get("Location")); err != nil {
		return err
	}
	done(3)
	hop := hopLink.FindStringSubmatch(string(text))
	if hop == nil {
		return errors.New("the page after the form does not lead to the callback")
	}
	callback, err := url.Parse(html.UnescapeString(hop[1]))
	if err != nil {
		return err
	}
	var facts struct{ Valid bool }
	err = d.api(d.at(i, 4), "/api/v1/verify/validate",
		map[string]string{"result_token": callback.Query().Get("result_token")}, &facts)
	if err == nil && !facts.Valid {
		err = errors.New("the result token was not valid")
	}
	done(4)
	return err
}

// receiver receives webhooks and counts them.
type receiver struct {
	URL string

	holding sync.RWMutex // held for writing: responses wait

	mu      sync.Mutex
	events  map[string]int // requests, by idempotency key
	doubled int
}

// hold keeps responses back until release is called.
func (r *receiver) hold() (release func()) {
	r.holding.Lock()
	return r.holding.Unlock
}

func newReceiver(t testing.TB) *receiver {
	r := &receiver{events: map[string]int{}}
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	r.URL = s.URL + "/hooks"
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	var event webhook.Event
	if err != nil || json.Unmarshal(body, &event) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.holding.RLock()
	defer r.holding.RUnlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.events[event.IdempotencyKey]++; r.events[event.IdempotencyKey] > 1 {
		r.doubled++
	}
	w.WriteHeader(http.StatusNoContent)
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.events)
}
