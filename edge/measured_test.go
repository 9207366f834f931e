package edge

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/edge/egress"
)

// slow is a Fetcher that takes its time and then answers with a status or err.
type slow struct {
	status int
	err    error
}

func (s slow) Fetch(context.Context, host.FetchRequest) (host.FetchResponse, error) {
	time.Sleep(10 * time.Millisecond)
	return host.FetchResponse{Status: s.status}, s.err
}

func TestMetrics_Providers(t *testing.T) {
	timeout := &host.FetchError{Reason: host.FetchTimeout, Err: errors.New("late")}
	for _, c := range []struct {
		name, method  string
		status        int
		err           error
		event, reason string
	}{
		{"an answer", "bankid", 200, nil, host.MethodFetched, ""},
		{"a refusal", "bankid", 499, nil, host.MethodFetched, ""},
		{"contract 48: an internal error", "bankid", 500, nil, host.MethodFetchFailed, host.FetchUnavailable},
		{"contract 48: a provider that is down", "bankid", 503, nil, host.MethodFetchFailed,
			host.FetchUnavailable},
		{"no answer", "bankid", 0, timeout, host.MethodFetchFailed, host.FetchTimeout},
		{"an error that is no FetchError", "bankid", 0, errors.New("x"), host.MethodFetchFailed,
			host.FetchNetwork},
		{"a webhook", "", 0, timeout, "", ""},
	} {
		var told []host.Measurement
		f := measured{slow{c.status, c.err}, func(m host.Measurement) { told = append(told, m) }}
		resp, err := f.Fetch(t.Context(), host.FetchRequest{For: c.method})
		if resp.Status != c.status || err != c.err {
			t.Errorf("%s: the caller gets %d, %v", c.name, resp.Status, err)
		}
		if c.event == "" {
			if len(told) > 0 {
				t.Errorf("%s: %+v", c.name, told)
			}
			continue
		}
		if len(told) != 1 || told[0].Method != c.method || told[0].Event != c.event ||
			told[0].Reason != c.reason || told[0].Took < 10*time.Millisecond || told[0].Took > time.Minute {
			t.Errorf("%s: %+v", c.name, told)
		}
	}
}

// Each kind of outage of a provider has its reason, in the metrics of the engine and in the steps of the
// core. The alert VergeMethodIsAway is tested with the same reasons (edge/deploy/alerts_test.yml).
func TestMeasured_ProviderDown(t *testing.T) {
	for _, c := range []struct {
		name   string
		serve  func(t *testing.T) (url string, roots *x509.CertPool)
		reason string
	}{
		{"contract 48: connection refused", rejecting, host.FetchRefused},
		{"contract 48: timeout", responding(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		}),
			host.FetchTimeout},
		{"contract 48: status 500", responding(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
		}),
			host.FetchUnavailable},
		{"contract 48: status 503", responding(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(503)
		}),
			host.FetchUnavailable},
		{"contract 48: a malformed response", malformed, host.FetchStatusLine},
		{"contract 48: an expired certificate", expired, host.FetchTLS},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url, roots := c.serve(t)
			var told []host.Measurement
			f := measured{
				egress.New(egress.Config{Dev: true, RootCAs: roots}),
				func(m host.Measurement) { told = append(told, m) },
			}
			kind := method.Kind{Name: "bank", Level: "L2",
				Open: func(_ method.Config, h method.Host) (method.Method, error) {
					return asking{h, url}, nil
				}}
			catalog, _ := method.NewCatalog([]method.Kind{kind},
				[]method.Config{{Name: "bank", Kind: "bank"}}, true)
			opened, err := catalog.Open(method.Host{Now: time.Now, Fetch: f,
				Measure: func(m host.Measurement) { told = append(told, m) }})
			if err != nil {
				t.Fatal(err)
			}
			err = opened["bank"].Begin(t.Context(), method.Session{})
			for n := range told {
				told[n].Took = 0
			}
			want := []host.Measurement{{Method: "bank", Event: host.MethodFetchFailed, Reason: c.reason},
				{Method: "bank", Event: "unavailable", Reason: c.reason}}
			if !slices.Equal(told, want) || method.ReasonOf(err) != c.reason {
				t.Errorf("measured %+v, and the step fails with %v, want %+v", told, err, want)
			}
		})
	}
}

// asking is a method that asks its other side to begin.
type asking struct {
	method.Host
	url string
}

func (a asking) Begin(ctx context.Context, _ method.Session) error {
	_, err := a.Fetch.Fetch(ctx, host.FetchRequest{Method: "GET", URL: a.url, Timeout: 2 * time.Second})
	return err
}

func (a asking) Show(method.Session, []byte) method.View { return method.View{} }

func (a asking) Act(context.Context, method.Session, method.Step) (method.Decision, error) {
	return method.Decision{}, method.ErrStep
}

func responding(h http.HandlerFunc) func(t *testing.T) (string, *x509.CertPool) {
	return func(t *testing.T) (string, *x509.CertPool) {
		server := httptest.NewServer(h)
		t.Cleanup(server.Close)
		return server.URL, nil
	}
}

func rejecting(t *testing.T) (string, *x509.CertPool) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	return server.URL, nil
}

func malformed(t *testing.T) (string, *x509.CertPool) {
	return responding(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		conn.Write([]byte("nonsense\r\n\r\n"))
		conn.Close()
	})(t)
}

// expired serves a certificate that ended an hour ago, and that the client would trust otherwise.
func expired(t *testing.T) (url string, roots *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-48 * time.Hour),
		NotAfter: time.Now().Add(-time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	server.StartTLS()
	t.Cleanup(server.Close)
	roots = x509.NewCertPool()
	roots.AddCert(parsed)
	return server.URL, roots
}
