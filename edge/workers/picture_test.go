package workers_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/edge/egress"
	"github.com/verge-id/verge/edge/engine"
	"github.com/verge-id/verge/edge/signing"
	"github.com/verge-id/verge/edge/wasmhost"
	"github.com/verge-id/verge/kvadapters/memory"
	"github.com/verge-id/verge/testharness/estimatortest"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/testharness/wait"
	"github.com/verge-id/verge/testharness/workerd"
	"github.com/verge-id/verge/wasm/settings"
)

// TestPicture_Largest: a picture of 1 MiB reaches the estimator whole, with each engine. The profile
// yoti needs most room: a request of 1.4 MiB, and a message to sign of 1.9 MiB. Pictures come one at a time
// and then several at the same time, because a guest with too much memory is replaced.
func TestPicture_Largest(t *testing.T) {
	engines := map[string]func(walks, *testing.T) (client *http.Client, key string){
		"native": walks.natively, "wasm": walks.inGuests, "workerd": walks.onWorkerd,
	}
	for name, open := range engines {
		t.Run(name, func(t *testing.T) {
			if name != "native" { // the engine with the fewest limits of its own
				long.Skip(t, "TestPicture_Largest")
			}
			t.Parallel()
			p := newWalks(t)
			client, key := open(p, t)
			picture := testenv.Picture(method.MaxFile)
			verify := func() {
				if err := p.verify(client, key, "", picture); err != nil {
					t.Error(err)
				}
			}
			for range 3 {
				verify()
			}
			var all sync.WaitGroup
			for range 4 {
				all.Go(verify)
			}
			all.Wait()
			whole := sha256.Sum256(picture)
			got := p.estimator.Requests()
			for _, r := range got {
				if r.Picture != whole {
					t.Error("contract 41: the estimator got another picture")
				}
			}
			if len(got) != 7 || p.estimator.Rejected() != 0 {
				t.Errorf("the estimator took %d pictures and refused %d, want 7 and 0",
					len(got), p.estimator.Rejected())
			}
		})
	}
}

// walks is a service with one method. newWalks makes that an estimator. A test may take another one before it
// opens the service.
type walks struct {
	estimator *estimatortest.Estimator
	config    core.Config
	ring      keyring.File
	key       string // of the method, in PEM
}

const walkHost = "verge.example"

func newWalks(t *testing.T) walks {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	ring, err := keyring.Generate(rand.Reader, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	const sdk = "b88ad843-13cc-44ba-a3e0-053f71d89b1f"
	estimator, address := estimatortest.Serve(t, estimatortest.Config{SDKID: sdk, Key: &private.PublicKey})
	face := method.Config{Name: "face", Kind: "estimator", Keys: []string{"private_key"},
		Settings: json.RawMessage(`{"profile":"yoti","url":"` + address + estimatortest.YotiPath +
			`","sdk_id":"` + sdk + `"}`)}
	return walks{
		estimator: estimator, ring: ring,
		config: core.Config{BaseURL: "https://" + walkHost, Dev: true, Methods: []method.Config{face}},
		key:    string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	}
}

func (p walks) keyName() string { return p.config.Methods[0].KeyName("private_key") }

func (p walks) sign(t *testing.T) func(context.Context, string, string, []byte) ([]byte, error) {
	t.Helper()
	signer, err := signing.Open(map[string]string{p.keyName(): "face.pem"},
		func(string) ([]byte, error) { return []byte(p.key), nil }, "")
	if err != nil {
		t.Fatal(err)
	}
	return signer.Sign
}

func (p walks) natively(t *testing.T) (*http.Client, string) { return p.here(t, nil) }

func (p walks) inGuests(t *testing.T) (*http.Client, string) {
	module := testenv.Module(t)
	return p.here(t, func(ctx context.Context, at edge.Setup) (engine.Engine, error) {
		return wasmhost.New(ctx, wasmhost.Config{Host: at.Host, Module: module,
			Guest: settings.Config{Config: at.Core}, Meter: ratelimit.NewLocal(0).Meter()})
	})
}

// here runs the service in this process.
func (p walks) here(t *testing.T, runs func(context.Context, edge.Setup) (engine.Engine, error),
) (*http.Client, string) {
	t.Helper()
	public, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := edge.Open(t.Context(), edge.Config{
		Core: p.config, Store: edge.Store{KV: memory.New(memory.Config{})},
		Keyring: p.ring, Egress: egress.Config{Dev: true}, Sign: p.sign(t), Engine: runs, Public: public,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := wait.For(done); err != nil {
			t.Error(err)
		}
	})
	direct := &http.Transport{}
	t.Cleanup(direct.CloseIdleConnections)
	return toHost(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.Host, r.URL.Scheme, r.URL.Host = walkHost, "http", public.Addr().String()
		return direct.RoundTrip(r)
	}), p.seed(t, s)
}

func (p walks) onWorkerd(t *testing.T) (*http.Client, string) {
	testenv.Program(t, "workerd")
	guest := settings.Config{Config: p.config, Host: walkHost}
	var err error
	if guest.Keyring, err = p.ring.Marshal(); err != nil {
		t.Fatal(err)
	}
	site := workerd.Shared(t).Site(t, workerd.Config{Guest: guest,
		Keys: map[string]string{p.keyName(): p.key}})
	writes, err := edge.Open(t.Context(), edge.Config{Core: p.config, Store: edge.Store{KV: site.KV()},
		Keyring: p.ring, Sign: p.sign(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := writes.Close(); err != nil {
			t.Error(err)
		}
	})
	return toHost(site.Client().Transport.RoundTrip), p.seed(t, writes)
}

// seed writes the integration and returns a secret key.
func (p walks) seed(t *testing.T, s *edge.Service) (key string) {
	t.Helper()
	d := s.Directory()
	err := errors.Join(d.PutPublisher(t.Context(), integration.Publisher{ID: "pub_walks", Name: "Walks"}),
		d.PutIntegration(t.Context(), integration.Integration{ID: integrationID, PublisherID: "pub_walks",
			Name: "Walks", Level: "L1", ChallengeAge: 25, Method: p.config.Methods[0].Name,
			Webhook: integration.Webhook{Off: true}}, ""))
	if err == nil {
		key, _, err = d.CreateKey(t.Context(), "pub_walks", "", nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// verify walks through one session from its start to its validation.
func (p walks) verify(client *http.Client, key, outcome string, picture []byte) error {
	var started struct {
		Redirect string `json:"redirect_url"`
	}
	if err := post(client, key, web.StartPath, map[string]string{"integration_id": integrationID,
		"callback_url": "https://shop.example/return", "state": "s-1234567890"}, &started); err != nil {
		return err
	}
	b := testenv.Browser{Client: client}
	back, err := b.Verify(started.Redirect, "https://shop.example/return", outcome, picture)
	if err != nil {
		return err
	}
	_, result, _ := strings.Cut(back, "result_token=")
	result, _, _ = strings.Cut(result, "&")
	var facts struct{ Verified bool }
	err = post(client, key, web.ValidatePath, map[string]string{"result_token": result}, &facts)
	if err == nil && !facts.Verified {
		err = fmt.Errorf("the callback %q brings no proof", back)
	}
	return err
}

func post(client *http.Client, key, path string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequest("POST", "https://"+walkHost+path, strings.NewReader(string(text)))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 || json.Unmarshal(got, answer) != nil {
		return fmt.Errorf("%s: %d %s, %v", path, resp.StatusCode, got, err)
	}
	return nil
}

// toHost is a client that uses reach for https://verge.example, and the usual transport for other hosts.
func toHost(reach roundTrip) *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
			if req.URL.Host == walkHost {
				return reach(req)
			}
			return http.DefaultTransport.RoundTrip(req)
		}),
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
