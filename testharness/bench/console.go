package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/outbox"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/edge/egress"
	"github.com/verge-id/verge/edge/server"
)

// What a large publisher has.
const (
	manyIntegrations = 10_000
	manyDeliveries   = 1_000_000 // of one integration
	pageVisits       = 50
	pageBound        = 100 * time.Millisecond // of processor time
)

const consoleToken = "vrg_op_for_the_bench_alone"

// takes is a receiver that takes every event, without a network.
type takes struct{}

// Fetch implements host.Fetcher.
func (takes) Fetch(context.Context, host.FetchRequest) (host.FetchResponse, error) {
	return host.FetchResponse{Status: 204}, nil
}

// consolePages measures the processor time of the console's pages for a large publisher. A page that takes
// more than pageBound is an error.
func consolePages() error {
	store, closeStore, err := onMemory()
	if err != nil {
		return err
	}
	defer closeStore()
	s, err := largePublisher(store)
	if err != nil {
		return err
	}
	defer s.Close()
	p := &visitor{service: s}
	if err := p.signIn(); err != nil {
		return err
	}
	fmt.Printf("the console with %d integrations of one publisher and %d deliveries of one of them:\n",
		manyIntegrations, manyDeliveries)
	of := core.ConsolePath + "/p/" + publisher
	slow := 0
	for _, page := range []struct{ name, path string }{
		{"overview", of},
		{"integrations", of + "/integrations"},
		{"integrations by a name that none has", of + "/integrations?name=nothing"},
		{"deliveries", of + "/deliveries?integration=" + integration1},
		{"deliveries of one type", of + "/deliveries?integration=" + integration1 + "&type=" +
			webhook.TypeFailed},
		{"deliveries that were given up", of + "/deliveries?integration=" + integration1 + "&state=dead"},
		{"keys", of + "/keys"},
		{"test console", of + "/test?integration=" + integration1},
		{"usage of 30 days", of + "/usage?integration=" + integration1},
		{"members", of + "/members"},
		{"audit", of + "/audit"},
		{"undelivered, of all publishers", core.ConsolePath + "/undelivered"},
	} {
		took, size, err := p.visit(page.path)
		if err != nil {
			return err
		}
		mark := ""
		if took > pageBound {
			slow++
			mark = "   more than " + pageBound.String()
		}
		fmt.Printf("  %-38s %7.2f ms of CPU, %4d KiB%s\n", page.name, float64(took.Microseconds())/1000,
			size>>10, mark)
	}
	if slow > 0 {
		return fmt.Errorf("%d pages of the console take more than %s of CPU", slow, pageBound)
	}
	return nil
}

// largePublisher is a service on a store with a publisher that has much.
func largePublisher(store kv.KV) (*edge.Service, error) {
	keys, err := ring()
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.NewJSONHandler(io.Discard, nil))
	s, err := edge.Open(context.Background(), edge.Config{
		Core:  core.Config{BaseURL: "https://" + benchHost, Dev: true, OperatorToken: consoleToken},
		Store: edge.Store{KV: store}, Keyring: keys, Egress: egress.Config{Dev: true},
		Server: server.Config{IdleGrace: time.Millisecond}, Public: l, Log: log,
	})
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := fill(s, log); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	fmt.Printf("the large publisher is made in %.0f s\n", time.Since(began).Seconds())
	return s, nil
}

// fill gives the publisher of the bench its integrations, 30 days of usage and its deliveries.
func fill(s *edge.Service, log *slog.Logger) error {
	ctx, d, h := context.Background(), s.Directory(), s.Host()
	if _, err := seed(ctx, d, "https://receiver.example/events"); err != nil {
		return err
	}
	today, counts := host.DayOf(time.Now()), host.Counts{}
	counts.Add(host.OutcomeStarted, 1000)
	counts.Add(host.OutcomeCompleted, 900)
	for n := range manyIntegrations - 1 {
		i := benchIntegration(fmt.Sprintf("%08x-3b5d-4c6e-8f90-a1b2c3d4e5f6", n), "sandbox", "")
		if err := d.PutIntegration(ctx, i, ""); err != nil {
			return err
		}
		var totals host.Totals
		for day := today - 29; n < 100 && day <= today; day++ {
			for _, id := range []string{i.ID, integration1} {
				totals.Days = append(totals.Days, host.DayTotal{Integration: id, Day: day, Instance: "bench",
					Counts: counts})
			}
		}
		if len(totals.Days) > 0 {
			if err := s.Usage().Record(ctx, totals); err != nil {
				return err
			}
		}
	}
	o := outbox.Outbox{KV: h.KV, Sealer: h.Sealer, Fetch: takes{}, Now: h.Now, Random: h.Random, Log: log,
		Directory: d, AttemptTime: outbox.AttemptTime, Partitions: s.Engine().Partitions()}
	i, err := d.Integration(ctx, integration1)
	if err != nil {
		return err
	}
	for n := range manyDeliveries {
		typ := webhook.TypeCompleted
		if n%10_000 == 0 {
			typ = webhook.TypeFailed
		}
		if _, err := o.SendTest(ctx, i, webhookSecret, typ); err != nil {
			return err
		}
	}
	return nil
}

// visitor is a browser in which an operator is signed in.
type visitor struct {
	service *edge.Service
	cookie  string
}

func (p *visitor) ask(method, path, form string) *web.Response {
	path, query, _ := strings.Cut(path, "?")
	req := &web.Request{Method: method, Path: path, Query: query, Body: []byte(form),
		Client: netip.MustParseAddr("192.0.2.1"), Header: web.Header{}}
	req.Header.Set("Host", benchHost)
	if p.cookie != "" {
		req.Header.Set("Cookie", p.cookie)
	}
	if form != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return p.service.Engine().Handle(context.Background(), req)
}

func (p *visitor) signIn() error {
	form := url.Values{"do": {"sign-in"}, "token": {consoleToken}}
	resp := p.ask("POST", core.ConsolePath+"/sign-in", form.Encode())
	p.cookie, _, _ = strings.Cut(resp.Header.Get("Set-Cookie"), ";")
	if resp.Status != 303 || p.cookie == "" {
		return fmt.Errorf("signing in to the console: %d", resp.Status)
	}
	return nil
}

// visit returns the processor time of a page, the mean of several visits, and its size.
func (p *visitor) visit(path string) (took time.Duration, size int, err error) {
	p.ask("GET", path, "") // what is read once and kept for seconds is not what is measured
	var process endpoint
	before := process.busy()
	for range pageVisits {
		resp := p.ask("GET", path, "")
		if resp.Status != 200 {
			return 0, 0, fmt.Errorf("%s: %d", path, resp.Status)
		}
		size = len(resp.Body)
	}
	return (process.busy() - before) / pageVisits, size, nil
}
