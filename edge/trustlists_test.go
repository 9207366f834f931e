package edge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/kvadapters/memory"
	"github.com/verge-id/verge/testharness/wait"
	"github.com/verge-id/verge/testharness/wallettest"
)

// publisher is the server of a trusted list.
type listServer struct {
	signer *wallettest.ListSigner
	asked  atomic.Int32
	mu     sync.Mutex
	body   []byte
}

func newListServer(t *testing.T) *listServer {
	s := &listServer{signer: wallettest.NewListSigner(time.Now())}
	s.publishes(t, 1, wallettest.NewIssuer(wallettest.IssuerConfig{Now: time.Now()}))
	return s
}

// publishes replaces the list.
func (s *listServer) publishes(t *testing.T, sequence uint64, issuers ...*wallettest.Issuer) {
	t.Helper()
	l := wallettest.List{Sequence: sequence, Issued: time.Now().Add(-time.Hour),
		NextUpdate: time.Now().AddDate(0, 0, 10)}
	for _, i := range issuers {
		l.Certificates = append(l.Certificates, i.Root)
	}
	list, err := s.signer.Sign(l)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.body = list
}

// Fetch implements host.Fetcher.
func (s *listServer) Fetch(_ context.Context, req host.FetchRequest) (host.FetchResponse, error) {
	if req.URL != "https://lists.example/eu" || req.For != "wallet" {
		return host.FetchResponse{}, errors.New("no other server")
	}
	s.asked.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	return host.FetchResponse{Status: 200, Body: s.body}, nil
}

// method returns a wallet with the list, and without an anchor.
func (s *listServer) method(t *testing.T, source map[string]string) method.Config {
	t.Helper()
	list := map[string]any{
		"name":    "eu",
		"format":  "etsi-ts-119602",
		"signers": []string{string(s.signer.PEM())},
	}
	for name, value := range source {
		list[name] = value
	}
	settings, err := json.Marshal(map[string]any{"profile": "eu-av", "trust_lists": []any{list}})
	if err != nil {
		t.Fatal(err)
	}
	return method.Config{Name: "wallet", Kind: "openid4vp", Settings: settings}
}

// stored returns the list as a service has stored it.
func stored(t *testing.T, s *edge.Service) operate.TrustList {
	t.Helper()
	all, err := s.TrustLists(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	return all[0]
}

// run runs a service until the test ends.
func run(t *testing.T, s *edge.Service) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := wait.For(ended); err != nil {
			t.Error(err)
		}
	})
}

// Three instances share one fetch, and all of them have the list.
func TestTrustLists_Instances(t *testing.T) {
	server := newListServer(t)
	store := memory.New(memory.Config{})
	ring := config(t).Keyring
	var all []*edge.Service
	for range 3 {
		conf := config(t)
		conf.Keyring = ring
		conf.Store, conf.Fetch = edge.Store{KV: store, Shared: true}, server
		conf.Core.Methods = []method.Config{
			server.method(t, map[string]string{"url": "https://lists.example/eu"}),
		}
		all = append(all, open(t, conf))
	}
	for _, s := range all {
		run(t, s)
	}
	for _, s := range all {
		wait.Until(t, "the list is stored", func() bool { return stored(t, s).State == operate.ListGood })
	}
	if n := server.asked.Load(); n != 1 {
		t.Errorf("contract 53: three instances have asked %d times", n)
	}
	if l := stored(t, all[2]); l.Entries != 1 || l.Sequence != 1 {
		t.Errorf("contract 53: %+v", l)
	}
}

// A file is read at the start and when the program asks. A bad one leaves the stored list, and is in the log
// and in the metrics.
func TestTrustLists_File(t *testing.T) {
	server := newListServer(t)
	path := filepath.Join(t.TempDir(), "list.jwt")
	write := func() {
		if err := os.WriteFile(path, server.body, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write()
	var log logged
	conf := config(t)
	conf.Ops, conf.Log = listen(t), slog.New(slog.NewTextHandler(&log, nil))
	conf.Core.Methods = []method.Config{server.method(t, map[string]string{"file": path})}
	s := open(t, conf)
	run(t, s)
	wait.Until(t, "the list is stored", func() bool { return stored(t, s).Sequence == 1 })

	server.publishes(t, 5)
	write()
	s.RefreshTrustLists()
	wait.Until(t, "the new list is stored", func() bool { return stored(t, s).Sequence == 5 })
	wait.Until(t, "the empty list is logged", func() bool {
		return strings.Contains(log.String(), "trusted list without certificates")
	})

	server.publishes(t, 4)
	write()
	s.RefreshTrustLists()
	wait.Until(t, "the replay is logged", func() bool {
		return strings.Contains(log.String(), "reason=lower_number")
	})
	if l := stored(t, s); l.Sequence != 5 {
		t.Errorf("contract 53: a replay is stored: %+v", l)
	}
	resp, err := http.Get("http://" + conf.Ops.Addr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	metrics, err := io.ReadAll(resp.Body)
	for _, want := range []string{
		`verge_trust_list_failures_total{list="eu",method="wallet",reason="lower_number"} 1`,
		`verge_trust_list_certificates{list="eu",method="wallet"} 0`,
		`verge_trust_list_next_update_seconds{list="eu",method="wallet"} 1.`,
	} {
		if err != nil || !strings.Contains(string(metrics), want) {
			t.Errorf("contract 53: the metrics lack %s, %v", want, err)
		}
	}
}

// logged is a log that several goroutines write.
type logged struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}
