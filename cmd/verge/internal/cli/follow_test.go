package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/testharness/wait"
)

// TestCertificatesAreReadAgain renews a certificate under load, by the poll and by SIGHUP. No request fails,
// over HTTP/1.1 or HTTP/2, on connections that are kept or new. A wrong certificate is rejected and shown in
// the metrics.
func TestCertificatesAreReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	var pool atomic.Pointer[x509.CertPool] // trusts every certificate so far
	pool.Store(x509.NewCertPool())
	write := func(serial int64, change func(*x509.Certificate)) {
		t.Helper()
		template := aCertificate()
		template.SerialNumber = big.NewInt(serial)
		template.DNSNames = append(template.DNSNames, "127.0.0.1")
		if change != nil {
			change(template)
		}
		certPEM, keyPEM, _ := selfSigned(t, template)
		more := pool.Load().Clone()
		more.AppendCertsFromPEM([]byte(certPEM))
		pool.Store(more)
		for path, content := range map[string]string{cert: certPEM, key: keyPEM} { // in any order
			if err := config.WritePrivate(afero.NewOsFs(), path, []byte(content)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	write(1, nil)
	site := newSite(t, "memory", newEvents(t).URL,
		fmt.Sprintf("%s[tls]\ncert = %q\nkey = %q\n", unlimited, cert, key))
	in := site.launch()
	wait.Until(t, "the server", func() bool { return strings.Contains(in.logs.String(), `"msg":"serving"`) })
	at := servingOf(t, in.logs.String())

	serial := func() int64 {
		conn, err := tls.Dial("tcp", at.Public, &tls.Config{RootCAs: pool.Load()})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	stop := askAlways(t, at.Public, &pool)
	defer stop()
	if got := serial(); got != 1 {
		t.Fatalf("the first certificate is %d", got)
	}
	write(2, nil)
	wait.Until(t, "the poll", func() bool { return serial() == 2 })
	write(3, nil)
	in.hangUp(t)
	wait.Until(t, "SIGHUP", func() bool { return serial() == 3 })
	for says, spoil := range map[string]func(){
		"expired at": func() {
			write(4, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
		},
		"are not a certificate and its key: ": func() {
			_, another, _ := selfSigned(t, aCertificate())
			if err := os.WriteFile(key, []byte(another), 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		spoil()
		in.hangUp(t)
		wait.Until(t, says, func() bool { return strings.Contains(in.logs.String(), says) })
		if got := serial(); got != 3 {
			t.Errorf("%s: certificate %d is in use", says, got)
		}
		wait.Until(t, says+" in the metrics", func() bool { // they change after the log
			metrics := metricsOf(t, at.Ops)
			return strings.Contains(metrics, "\nverge_tls_certificate_refused 1\n") &&
				strings.Contains(metrics, `verge_tls_certificate_expiry_timestamp_seconds{name="verify.example.com"}`)
		})
	}
	write(5, nil)
	wait.Until(t, "the good one", func() bool { return serial() == 5 })
	wait.Until(t, "the metric", func() bool {
		return strings.Contains(metricsOf(t, at.Ops), "\nverge_tls_certificate_refused 0\n")
	})
	if answered := stop(); answered[0] < 100 || answered[1] < 100 {
		t.Errorf("only %d requests were answered", answered)
	}
}

// askAlways has clients ask a server until stop is called: by HTTP/1.1 and by HTTP/2, on connections that are
// kept and on new ones. Each request must be answered. stop returns how many were, by HTTP/1.1 and by HTTP/2.
func askAlways(t *testing.T, public string, pool *atomic.Pointer[x509.CertPool]) (stop func() [2]int64) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var answered [2]atomic.Int64 // by HTTP/1.1 and by HTTP/2
	for n := range 6 {
		clients.Go(func() {
			config := &tls.Config{InsecureSkipVerify: true,
				VerifyConnection: func(s tls.ConnectionState) error {
					_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: pool.Load()})
					return err
				}}
			client := &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: config,
				ForceAttemptHTTP2: n%2 == 1, DisableKeepAlives: n%3 == 0}}
			for ctx.Err() == nil {
				resp, err := client.Get("https://" + public + "/readyz")
				if err != nil {
					t.Errorf("a request failed: %v", err)
					return
				}
				_, err = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if err != nil || resp.StatusCode != http.StatusOK || resp.ProtoMajor != 1+n%2 {
					t.Errorf("%s %d, %v", resp.Proto, resp.StatusCode, err)
					return
				}
				answered[n%2].Add(1)
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	return func() [2]int64 {
		end()
		clients.Wait()
		return [2]int64{answered[0].Load(), answered[1].Load()}
	}
}

// servingOf returns the log line of a server that serves.
func servingOf(t *testing.T, log string) (at serving) {
	t.Helper()
	for line := range strings.Lines(log) {
		if json.Unmarshal([]byte(line), &at) == nil && at.Msg == "serving" {
			return at
		}
	}
	t.Fatalf("it does not serve: %s", log)
	return at
}

func metricsOf(t *testing.T, ops string) string {
	t.Helper()
	resp, err := http.Get("http://" + ops + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
