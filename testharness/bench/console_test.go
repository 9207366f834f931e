package bench

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/sessiontest"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/testharness/long"
)

// pageLimit is the maximum processor time of a page.
const pageLimit = 100 * time.Millisecond

// accepts is a receiver that accepts every event, without a network.
type accepts struct{}

// Fetch implements host.Fetcher.
func (accepts) Fetch(context.Context, host.FetchRequest) (host.FetchResponse, error) {
	return host.FetchResponse{Status: 204}, nil
}

// BenchmarkConsole measures the console's pages for a large publisher: 10,000 integrations, and 1,000,000
// deliveries of one of them in the long run. A page that takes more than pageLimit of processor time fails.
func BenchmarkConsole(b *testing.B) {
	s := newService(b, onMemory(b), noSink, func(c *edge.Config) { c.Core.OperatorToken = operatorToken })
	s.fill(b, 10_000, long.Pick(b, "BenchmarkConsole", 10_000, 1_000_000))
	v := &visitor{service: s.Service}
	v.signIn(b)
	of := core.ConsolePath + "/p/" + publisher
	for _, page := range []struct{ name, path string }{
		{"overview", of},
		{"integrations", of + "/integrations"},
		{"integrations by a name that none has", of + "/integrations?name=nothing"},
		{"deliveries", of + "/deliveries?integration=" + integration1},
		{"deliveries of one type", of + "/deliveries?integration=" + integration1 + "&type=" +
			webhook.TypeFailed},
		{"failed deliveries", of + "/deliveries?integration=" + integration1 + "&state=dead"},
		{"keys", of + "/keys"},
		{"test console", of + "/test?integration=" + integration1},
		{"usage of 30 days", of + "/usage?integration=" + integration1},
		{"members", of + "/members"},
		{"audit", of + "/audit"},
		{"undelivered, of all publishers", core.ConsolePath + "/undelivered"},
	} {
		b.Run(page.name, func(b *testing.B) {
			v.get(b, page.path) // records that are read once and kept for seconds
			b.ResetTimer()
			took := measure(b, b.N, busy, func(n int) error {
				for range n {
					b.ReportMetric(float64(len(v.get(b, page.path))>>10), "KiB")
				}
				return nil
			})
			b.ReportMetric(took.cpu, "cpu-ns/op")
			if took.cpu > float64(pageLimit) {
				b.Errorf("the page takes more than %s of processor time", pageLimit)
			}
		})
	}
}

// fill gives the publisher its integrations, 30 days of usage and its deliveries.
func (s *service) fill(b *testing.B, integrations, deliveries int) {
	b.Helper()
	ctx, d, h := b.Context(), s.Directory(), s.Host()
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	today, counts := host.DayOf(time.Now()), host.Counts{}
	counts.Add(host.OutcomeStarted, 1000)
	counts.Add(host.OutcomeCompleted, 900)
	for n := range integrations - 1 {
		i := benchIntegration(fmt.Sprintf("%08x-3b5d-4c6e-8f90-a1b2c3d4e5f6", n), "sandbox", "")
		must(d.PutIntegration(ctx, i, ""))
		var totals host.Totals
		for day := today - 29; n < 100 && day <= today; day++ {
			for _, id := range []string{i.ID, integration1} {
				totals.Days = append(totals.Days, host.DayTotal{Integration: id, Day: day, Instance: "bench",
					Counts: counts})
			}
		}
		if len(totals.Days) > 0 {
			must(s.Usage().Record(ctx, totals))
		}
	}
	h.Fetch = accepts{}
	i, err := d.Integration(ctx, integration1)
	must(err)
	for n := range deliveries {
		typ := webhook.TypeCompleted
		if n%10_000 == 0 {
			typ = webhook.TypeFailed
		}
		must(sessiontest.Store{Host: h}.SendTestEvent(ctx, s.Engine().Partitions(), i, webhookSecret, typ))
	}
}

// visitor is a browser in which an operator is signed in.
type visitor struct {
	service *edge.Service
	cookie  string
}

func (v *visitor) ask(method, path, form string) *web.Response {
	header := web.Header{"Host": {benchHost}}
	if v.cookie != "" {
		header.Set("Cookie", v.cookie)
	}
	if form != "" {
		header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return v.service.Engine().Handle(context.Background(), webRequest(method, path, form, header))
}

func (v *visitor) signIn(b *testing.B) {
	form := url.Values{"do": {"sign-in"}, "token": {operatorToken}}
	resp := v.ask("POST", core.ConsolePath+"/sign-in", form.Encode())
	v.cookie, _, _ = strings.Cut(resp.Header.Get("Set-Cookie"), ";")
	if resp.Status != 303 || v.cookie == "" {
		b.Fatalf("signing in to the console: %d", resp.Status)
	}
}

func (v *visitor) get(b *testing.B, path string) (page []byte) {
	resp := v.ask("GET", path, "")
	if resp.Status != 200 {
		b.Fatalf("%s: %d", path, resp.Status)
	}
	return resp.Body
}
