package cli

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/verge-id/verge/testharness/chromium"
	"github.com/verge-id/verge/testharness/long"
)

// TestProductionInChromium: a real browser keeps the cookie of production through the way to the provider and
// back (contract 34, 35).
func TestProductionInChromium(t *testing.T) {
	long.Skip(t, "TestProductionInChromium")
	t.Parallel()
	s := newProduction(t, goBank(t), "")
	id, redirect, err := s.in.publisher.start(s.integrations["plain"])
	if err != nil {
		t.Fatal(err)
	}
	s.bank.next(login{Claims: claimsOf(40, "", nil)})

	ctx := s.chromium(t)
	if err := chromedp.Do(ctx, chromedp.Navigate(redirect), chromedp.Click(`form[data-outcome="begin"] button`)); err != nil {
		t.Fatal(err)
	}
	at := location(ctx, func(at string) bool { return strings.HasPrefix(at, productionShop+"/callback?") })
	back, err := url.Parse(at)
	if err != nil || ctx.Err() != nil {
		t.Fatalf("the browser ends at %q: %v; the log: %s", at, err, s.in.logs)
	}
	if got := s.outcome(t, id); got != "COMPLETED" {
		t.Errorf("the session is %q", got)
	}
	if valid, status, body := s.in.publisher.validate(back.Query().Get("result_token")); !valid {
		t.Errorf("validate: %d %s", status, body)
	}
}

// chromium starts a browser for which the domains of the service and of the shop are at the front.
func (s *production) chromium(t *testing.T) context.Context {
	t.Helper()
	front := s.front.Listener.Addr().String()
	rules := fmt.Sprintf("MAP *.example.com %s, MAP *.example %s", front, front)
	return chromium.Start(t, chromedp.Flag("ignore-certificate-errors", true),
		chromedp.Flag("host-resolver-rules", rules))
}
