package listfetch

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/edge/internal/trustlist"
	"github.com/verge-id/verge/testharness/wallettest"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// signer and issuer are made once.
var (
	signer = wallettest.NewListSigner(now)
	issuer = wallettest.NewIssuer(wallettest.IssuerConfig{Now: now})
)

var spec = method.TrustList{Name: "eu", URL: "https://lists.example/eu.jwt", Format: "etsi-ts-119602",
	Signers: [][]byte{signer.Certificate.Raw}, DocType: "eu.europa.ec.av.1", Grace: 7 * 24 * time.Hour}

// list returns a signed list of that number.
func list(t testing.TB, sequence uint64, certificates ...*x509.Certificate) []byte {
	t.Helper()
	b, err := signer.Sign(wallettest.List{Sequence: sequence, Issued: now.Add(-time.Hour),
		NextUpdate: now.AddDate(0, 0, 10), Certificates: certificates})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type fetcher func(req host.FetchRequest) (host.FetchResponse, error)

func (f fetcher) Fetch(_ context.Context, req host.FetchRequest) (host.FetchResponse, error) {
	return f(req)
}

func TestSource_Get(t *testing.T) {
	good := list(t, 3, issuer.Root, issuer.Root)
	parts := bytes.Split(good, []byte("."))
	altered := bytes.Join([][]byte{parts[0], bytes.Split(list(t, 4), []byte("."))[1], parts[2]}, []byte("."))
	answers := func(status int, body []byte) fetcher {
		return func(req host.FetchRequest) (host.FetchResponse, error) {
			if req.Method != "GET" || req.URL != spec.URL || req.For != "wallet" ||
				req.MaxBody != trustlist.MaxSize+1 {
				t.Errorf("contract 53: the request is %+v", req)
			}
			return host.FetchResponse{Status: status, Body: body}, nil
		}
	}
	fails := func(err error) fetcher {
		return func(host.FetchRequest) (host.FetchResponse, error) { return host.FetchResponse{}, err }
	}
	file := spec
	file.URL, file.File = "", "/etc/verge/list"
	other := wallettest.NewListSigner(now)
	stranger := spec
	stranger.Signers = [][]byte{other.Certificate.Raw}
	damaged := spec
	damaged.Signers = [][]byte{{1}}
	for _, c := range []struct {
		name   string
		list   method.TrustList
		fetch  fetcher
		reason string // "": it is good
	}{
		{"a good list", spec, answers(200, good), ""},
		{"a redirect", spec, answers(302, good), "status"},
		{"not found", spec, answers(404, nil), "status"},
		{"no connection", spec, fails(&host.FetchError{Reason: host.FetchDNS, Err: errors.New("x")}),
			"dns_error"},
		{"another error", spec, fails(errors.New("x")), "network_error"},
		{"an altered list", spec, answers(200, altered), "wrong_signature"},
		{"another signer", stranger, answers(200, good), "signer_unknown"},
		{"a signer that is no certificate", damaged, answers(200, good), "other"},
		{"a page", spec, answers(200, []byte("<html>")), "malformed"},
		{"17 MiB", spec, answers(200, make([]byte, trustlist.MaxSize+1)), "too_large"},
		{"a file", file, fails(errors.New("no request")), ""},
	} {
		t.Run("contract 53: "+c.name, func(t *testing.T) {
			s := Source{Fetch: c.fetch, Now: func() time.Time { return now },
				ReadFile: func(path string, limit int) ([]byte, error) {
					if path != file.File || limit != trustlist.MaxSize+1 {
						t.Errorf("reads %s up to %d", path, limit)
					}
					return good, nil
				}}
			in, err := s.Get(t.Context(), "wallet", c.list)
			if c.reason != "" {
				if reasonOf(err) != c.reason || len(in.Certificates) > 0 {
					t.Errorf("%s, %v; want %s", reasonOf(err), err, c.reason)
				}
				return
			}
			if err != nil || in.Sequence != 3 || len(in.Certificates) != 1 || in.Skipped != 1 ||
				in.Method != "wallet" || in.Name != "eu" || in.Configuration != c.list.Digest() ||
				len(in.Document) != 64 ||
				len(in.Fingerprint) != 64 ||
				!strings.Contains(in.Signer, "Test signer of lists") {
				t.Errorf("%+v, %v", in, err)
			}
		})
	}
	for status, want := range map[int]string{302: "without a redirect", 404: "check the address"} {
		s := Source{Fetch: answers(status, nil)}
		if _, err := s.Get(t.Context(), "wallet", spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("status %d: %v; want %q", status, err, want)
		}
	}
	s := Source{ReadFile: func(string, int) ([]byte, error) { return nil, os.ErrNotExist }}
	if _, err := s.Get(t.Context(), "wallet", file); reasonOf(err) != "file" ||
		!errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is missing: %v", err)
	}
}
