package server

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/testharness/wait"
)

// An operator's request may take longer than a public one, including its WriteTimeout, but has a deadline
// as well.
func TestAdminTimeout(t *testing.T) {
	left := make(chan time.Duration, 2)
	handle := func(ctx context.Context, _ *web.Request) *web.Response {
		end, ok := ctx.Deadline()
		if !ok {
			t.Error("no deadline")
		}
		left <- time.Until(end)
		return ok200AfterWriteTimeout(ctx)
	}
	admin := listen(t)
	start(t, Config{Engine: fake{}, AdminListener: admin, Admin: handle,
		HandleTimeout: time.Millisecond, WriteTimeout: 50 * time.Millisecond, AdminTimeout: time.Hour})
	resp, err := http.Get("http://" + admin.Addr().String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("status %d", resp.StatusCode)
	}
	if d := wait.For(left); d < time.Minute || d > time.Hour {
		t.Errorf("the deadline was %v away", d)
	}
}

// The provider of a verification method may take method.StepTime of a request. The rest is for the store
// and the response.
func TestHandleTimeout_MethodStep(t *testing.T) {
	left := make(chan time.Duration, 1)
	base, _ := start(t, Config{Engine: fake{handle: func(ctx context.Context, _ *web.Request) *web.Response {
		end, _ := ctx.Deadline()
		left <- time.Until(end)
		return ok("{}")
	}}})
	resp, err := http.Get(base + "/verify")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if d := wait.For(left); d < method.StepTime+2*time.Second {
		t.Errorf("a request has %s, and the provider may take %s of it", d, method.StepTime)
	}
}

// ok200AfterWriteTimeout responds after the public WriteTimeout of the test.
func ok200AfterWriteTimeout(ctx context.Context) *web.Response {
	select {
	case <-time.After(100 * time.Millisecond):
		return ok("{}")
	case <-ctx.Done():
		return &web.Response{Status: 503, Header: web.Header{}}
	}
}

// A second click abandons the first request. A request that must be sent only once continues; all others
// end.
func TestServer_WholeRequestContinues(t *testing.T) {
	for _, c := range []struct {
		method, path string
		whole        bool
	}{
		{"POST", "/verify/file", true},
		{"GET", "/verify/return/bank?state=a", true},
		{"POST", "/verify", false},
		{"GET", "/verify", false},
	} {
		arrived, left, over := make(chan bool), make(chan bool), make(chan error, 1)
		base, _ := start(t,
			Config{Engine: fake{handle: func(ctx context.Context, _ *web.Request) *web.Response {
				close(arrived)
				wait.For(left)
				if !c.whole {
					wait.For(ctx.Done())
				}
				select {
				case <-ctx.Done():
				case <-time.After(300 * time.Millisecond):
				}
				over <- ctx.Err()
				return ok("{}")
			}}})
		ctx, leave := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, c.method, base+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if resp, err := http.DefaultClient.Do(req); err == nil {
				resp.Body.Close()
			}
		}()
		wait.For(arrived)
		leave()
		close(left)
		if err := wait.For(over); (err == nil) != c.whole {
			t.Errorf("contract 37: %s %s continues without its caller: %v, want %v", c.method, c.path,
				err == nil, c.whole)
		}
	}
}
