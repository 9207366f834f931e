package oidc_test

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/oidc"
	"github.com/verge-id/verge/testharness/oidctest"
)

// slow is a fetcher whose other side takes a time for each answer, on the clock of the walk.
type slow struct {
	*walk
	takes map[string]time.Duration // by path; "" is every other
	asked []string                 // paths
}

func (s *slow) Fetch(ctx context.Context, req host.FetchRequest) (host.FetchResponse, error) {
	address, err := url.Parse(req.URL)
	if err != nil {
		return host.FetchResponse{}, err
	}
	s.asked = append(s.asked, address.Path)
	takes, own := s.takes[address.Path]
	if !own {
		takes = s.takes[""]
	}
	if takes >= req.Timeout {
		s.advance(req.Timeout)
		return host.FetchResponse{}, &host.FetchError{Reason: host.FetchTimeout, Err: errors.New("no answer")}
	}
	s.advance(takes)
	req.Timeout = 5 * time.Second // of the real clock
	return s.fetch.Fetch(ctx, req)
}

// TestSlowProvider: a cold return asks for the discovery document, the tokens, the keys and the userinfo. A
// server gives it 15 s. So the requests take at most method.StepTime together, however slow the provider is.
func TestSlowProvider(t *testing.T) {
	const second = time.Second
	documents := []string{oidctest.DiscoveryPath, oidctest.TokenPath, oidctest.KeysPath,
		oidctest.UserinfoPath}
	for _, c := range []struct {
		rule    string
		takes   map[string]time.Duration
		verdict method.Verdict // Unclassified: the step fails
		asked   []string
	}{
		{"every response arrives just in time", map[string]time.Duration{"": 2900 * time.Millisecond},
			method.Approved, documents},
		{"the tokens take so long that no time is left for the userinfo",
			map[string]time.Duration{"": 2900 * time.Millisecond,
				oidctest.TokenPath: 4900 * time.Millisecond},
			method.Unclassified, documents},
		{"the first document is too late", map[string]time.Duration{"": 3 * second},
			method.Unclassified, documents[:1]},
		{"no answer at all", map[string]time.Duration{"": time.Hour}, method.Unclassified, documents[:1]},
	} {
		t.Run(c.rule, func(t *testing.T) {
			w := newWalk(t, oidctest.Config{}, settings{"userinfo": true})
			provider := &slow{walk: w}
			catalog, wrong := method.NewCatalog([]method.Kind{oidc.Kind}, []method.Config{w.config}, true)
			if err := wrong.Err(); err != nil {
				t.Fatal(err)
			}
			w.host.Fetch = provider
			open := func() method.Opened { // a new instance, without cached data
				all, err := catalog.Open(w.host)
				if err != nil {
					t.Fatal(err)
				}
				return all["bankid"]
			}
			left, err := open().Act(t.Context(), w.session,
				method.Step{Form: url.Values{"outcome": {"begin"}}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			query := w.visit(left.Leave.URL)

			provider.takes, provider.asked = c.takes, nil
			began := w.clock()
			d, err := open().Act(t.Context(), w.session,
				method.Step{Form: query, Back: true, State: left.State}, nil)
			if took := w.clock().Sub(began); took > method.StepTime {
				t.Errorf("the requests take %s, want at most %s", took, method.StepTime)
			}
			if !slices.Equal(provider.asked, c.asked) {
				t.Errorf("the provider is asked for %q, want %q", provider.asked, c.asked)
			}
			if c.verdict == method.Approved {
				wantVerdict(t, c.rule, d, err, c.verdict)
				return
			}
			var failed *host.FetchError
			if !errors.As(err, &failed) || failed.Reason != host.FetchTimeout ||
				d.Verdict != method.Unclassified {
				t.Errorf("%+v, %v; want a timeout, and nothing decided", d, err)
			}
		})
	}
}

// crowd is a fetcher that has another user begin before it sends a request, until so many users have begun.
type crowd struct {
	*walk
	more int
}

func (c *crowd) Fetch(ctx context.Context, req host.FetchRequest) (host.FetchResponse, error) {
	if c.more > 0 {
		c.more--
		if err := c.method.Begin(ctx, c.session); err != nil {
			c.t.Errorf("contract 36: a user who begins before the first response has arrived: %v", err)
		}
	}
	return c.fetch.Fetch(ctx, req)
}

// TestBegin_Crowd: users who begin at the same time at an instance without documents all leave for the
// provider.
func TestBegin_Crowd(t *testing.T) {
	w := newWalk(t, oidctest.Config{}, nil)
	w.host.Fetch = &crowd{walk: w, more: 20}
	w.open()
	if err := w.method.Begin(t.Context(), w.session); err != nil {
		t.Error(err)
	}
	if n := w.provider.Count(oidctest.DiscoveryPath); n != 21 {
		t.Errorf("asked %d times, want 21: no request had a document", n)
	}
}
