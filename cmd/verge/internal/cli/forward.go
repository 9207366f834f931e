package cli

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
)

// secretKeyVariable has the publisher's secret key. A flag would show it in the list of processes.
const secretKeyVariable = "VERGE_SECRET_KEY"

type listenCmd struct {
	Forward     string       `required:"" placeholder:"URL" help:"URL to post events to, such as http://localhost:3000/hook."`
	URL         string       `name:"url" group:"server" placeholder:"URL" env:"VERGE_URL" help:"URL of the service. Default: the \"verge dev\" that runs here."`
	Integration string       `group:"server" placeholder:"UUID" env:"VERGE_INTEGRATION" help:"The integration. Default: the first one of that \"verge dev\"."`
	KeyFile     string       `group:"server" placeholder:"FILE" help:"File with a secret key of the publisher. Or set $$VERGE_SECRET_KEY."`
	ReadyFile   string       `group:"server" default:".verge/ready.json" type:"path" env:"VERGE_READY_FILE" help:"Ready file of the \"verge dev\" to use if no URL is given."`
	Since       config.Delay `placeholder:"TIME" help:"Also print events of the last TIME, such as 10m."`
}

// Help is shown by `verge listen --help`.
func (listenCmd) Help() string {
	return `Posts the test events of an integration to a receiver on this machine, until it is
stopped. It polls the service's API with a secret key, so this machine need not be
reachable. Send test events with "verge event trigger" or in the console. The
integration must have a webhook URL; the response from that URL does not matter.

Events are signed with a separate secret, which the command prints. It is the same
each time for the same key and integration. The webhook secret of the integration is
not used. Events lack external_user_id and publisher_state.

Each request waits for an event for up to 20 s. If the service does not respond, or
restarts, the next request includes the events since then, so none is lost. Events
that the receiver does not accept are not sent again.

Examples:

    verge listen --forward http://localhost:3000/hook
    VERGE_SECRET_KEY=svc_sk_… verge listen --forward http://localhost:3000/hook \
      --url https://verify.example.com --integration 711bb7bd-4165-465f-a5bb-ec37600c13c9`
}

func (c *listenCmd) Run(ctx context.Context, p *program) error {
	l, err := c.listener(p)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.stderr, "Forwarding test events of %s at %s to %s.\n"+
		"Webhook secret for these events only:\n", l.integration, l.base, l.forward)
	fmt.Fprintln(p.stdout, l.secret)
	return l.run(ctx, time.Duration(c.Since))
}

func (c *listenCmd) listener(p *program) (*listener, error) {
	l := &listener{base: strings.TrimSuffix(c.URL, "/"), integration: c.Integration, forward: c.Forward,
		now: p.Now, out: p.stderr, seen: map[string]time.Time{}, sleep: sleep,
		http: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}}}
	key, _, err := p.SecretIn(secretKeyVariable)
	if err != nil {
		err = usagef("%s: %w", secretKeyVariable, err)
	}
	if c.KeyFile != "" {
		key, err = p.ownSecret("--key-file", c.KeyFile)
	}
	if err != nil {
		return nil, err
	}
	if l.base == "" {
		ready, err := readReady(p.FS, c.ReadyFile)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, noDev(c.ReadyFile, "--url URL (VERGE_URL)")
		}
		if err != nil {
			return nil, usageError{err}
		}
		l.base = ready.BaseURL
		key = cmp.Or(key, ready.SecretKey)
		l.integration = cmp.Or(l.integration, ready.IntegrationID)
	}
	if l.key = key; l.key == "" {
		return nil, usagef("no secret key: set VERGE_SECRET_KEY or give --key-file")
	}
	if l.integration == "" {
		return nil, usagef("no integration: give --integration or set VERGE_INTEGRATION")
	}
	for flag, address := range map[string]string{"--url": l.base, "--forward": l.forward} {
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, usagef("%s: %q is not a URL like http://localhost:3000/hook", flag, address)
		}
		if flag == "--url" && u.Scheme == "http" && !config.IsThisMachine(u.Hostname()) {
			return nil, usagef("--url: %q would send the secret key unencrypted: use https", address)
		}
	}
	l.secret = listenSecret(l.key, l.integration)
	return l, nil
}

// listenSecret derives the secret that signs the events. Only a holder of the key can derive it. It does not
// reveal the key.
func listenSecret(key, integration string) string {
	h := hmac.New(sha256.New, []byte(key))
	h.Write([]byte("verge listen " + integration))
	return "whsec_" + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// overlap is how much earlier than the latest event the next request begins (contract 49).
const overlap = 5 * time.Minute

// mostOfEvents limits a response of the service. It has at most 500 events.
const mostOfEvents = 4 << 20

const (
	// preferWait is the maximum wait of a request at the service, in seconds.
	preferWait = 20
	// askTime bounds a request, including the wait at the service.
	askTime = (preferWait + 25) * time.Second
	// askEach is the minimum time between two requests if the service responds immediately. The limit of a
	// key allows twice as many.
	askEach = time.Second
	// lostMost is the maximum pause between two requests if the service does not respond.
	lostMost = 15 * time.Second
	// postTime bounds the response of the developer's receiver.
	postTime = 30 * time.Second
)

// sleep waits for that time or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// listener polls for test events and posts them.
type listener struct {
	base, key, integration, forward, secret string

	http  *http.Client
	now   func() time.Time
	sleep func(context.Context, time.Duration)
	out   io.Writer

	since time.Time            // where the next request begins
	tag   string               // of the service's last response since then; "": no response yet
	seen  map[string]time.Time // the events since then, by id, and when they were created

	failures int // since the service last responded
}

// run returns when ctx ends or the service rejects the requests permanently.
func (l *listener) run(ctx context.Context, back time.Duration) error {
	for {
		asked := l.now()
		pause, err := l.turn(ctx, back)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && pause == 0:
			return err
		case err != nil:
			if l.failures++; l.failures == 1 {
				fmt.Fprintf(l.out, "The service does not respond: %v. Retrying.\n", err)
			}
			pause = max(pause, min(askEach<<min(l.failures-1, 10), lostMost))
		}
		// A request that waited at the service needs no pause.
		if pause = max(pause, askEach-l.now().Sub(asked)); pause > 0 {
			l.sleep(ctx, pause)
		}
	}
}

// turn polls once and posts new events. If it fails and pause is not zero, retry after that time.
func (l *listener) turn(ctx context.Context, back time.Duration) (pause time.Duration, err error) {
	first := l.since.IsZero()
	since := l.since
	if first {
		since = l.now().Add(24 * time.Hour) // no event: the response only has the service's time
	}
	response, pause, err := l.ask(ctx, since)
	if err != nil {
		return pause, err
	}
	if l.failures > 0 {
		fmt.Fprintln(l.out, "The service responds again.")
		l.failures = 0
	}
	if response.unchanged {
		return 0, nil
	}
	if first {
		l.since = response.Now.Add(-back)
		return 0, nil
	}
	for _, body := range response.Events {
		var e webhook.Event
		if err := json.Unmarshal(body, &e); err != nil {
			return 0, fmt.Errorf("the service's response has an invalid event: %w", err)
		}
		created, err := time.Parse(time.RFC3339, e.CreatedAt)
		if err != nil {
			return 0, fmt.Errorf("the service's response has an event without a time: %w", err)
		}
		if _, known := l.seen[e.ID]; !known {
			l.seen[e.ID] = created
			l.post(ctx, e, body)
		}
		// All events up to here are known, so the next request may begin later.
		next := created.Add(-overlap)
		if response.More {
			next = created
		}
		if next.After(l.since) {
			l.since, response.tag = next, "" // it belongs to another request
		}
	}
	l.tag = response.tag
	for id, created := range l.seen {
		if created.Before(l.since) {
			delete(l.seen, id)
		}
	}
	return 0, nil
}

type testEvents struct {
	Events []json.RawMessage `json:"events"`
	Now    time.Time         `json:"now"`
	More   bool              `json:"more"`

	unchanged bool // the list still has the tag l.tag
	tag       string
}

func (l *listener) ask(ctx context.Context, since time.Time) (response testEvents, pause time.Duration,
	err error) {
	query := url.Values{"integration_id": {l.integration},
		"since": {since.UTC().Format("2006-01-02T15:04:05.000Z")}}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", l.base+web.TestsPath+"?"+query.Encode(), nil)
	if err != nil {
		return response, 0, err
	}
	req.Header.Set("Authorization", "Bearer "+l.key)
	req.Header.Set("Prefer", "wait="+strconv.Itoa(preferWait))
	if l.tag != "" {
		req.Header.Set("If-None-Match", l.tag)
	}
	resp, err := l.http.Do(req)
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // without the address, which is long
	}
	if err != nil {
		return response, askEach, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostOfEvents))
	if err != nil {
		return response, askEach, err
	}
	if resp.StatusCode == http.StatusNotModified {
		return testEvents{unchanged: true}, 0, nil
	}
	if resp.StatusCode != http.StatusOK {
		var rejection struct {
			Code    string `json:"code"`
			Message string `json:"error"`
		}
		if json.Unmarshal(body, &rejection) != nil || rejection.Code == "" {
			rejection.Code, rejection.Message = resp.Status, "the response is not from Verge's API"
		}
		if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500 {
			seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
			pause = max(time.Duration(min(seconds, 60))*time.Second, askEach)
		}
		return response, pause, fmt.Errorf("%s: %s", oneLine(rejection.Code), oneLine(rejection.Message))
	}
	if err := json.Unmarshal(body, &response); err != nil {
		return response, 0, fmt.Errorf("the service's response cannot be read: %w", err)
	}
	response.tag = resp.Header.Get("Etag")
	return response, 0, nil
}

// maxReason is the maximum size of a receiver's response that is read for its reason.
const maxReason = 1 << 10

// reasonOf returns the first line of a response that rejects an event, since receivers put the reason there.
func reasonOf(resp *http.Response) string {
	if resp.StatusCode < 300 {
		return ""
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxReason))
	for line := range strings.Lines(strings.ToValidUTF8(string(body), "")) {
		if line = strings.TrimSpace(oneLine(line)); line != "" {
			return ": " + cut(line, 200)
		}
	}
	return ""
}

// post sends an event to the receiver, once.
func (l *listener) post(ctx context.Context, e webhook.Event, body []byte) {
	said := ""
	ctx, cancel := context.WithTimeout(ctx, postTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", l.forward, bytes.NewReader(body))
	if err == nil {
		for name, value := range webhook.Headers(e.ID, l.now(), body, l.secret) {
			req.Header.Set(name, value)
		}
		var resp *http.Response
		if resp, err = l.http.Do(req); err == nil {
			said = resp.Status + reasonOf(resp)
			resp.Body.Close()
		}
	}
	if err != nil {
		said = "no response: " + err.Error()
	}
	fmt.Fprintf(l.out, "%s %s  %s\n", oneLine(e.Type), oneLine(e.ID), oneLine(said))
}
