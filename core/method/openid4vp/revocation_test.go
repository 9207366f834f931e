package openid4vp_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"maps"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/metric"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/openid4vp"
	edge "github.com/verge-id/verge/edge/signing"
	"github.com/verge-id/verge/testharness/wallettest"
)

const (
	listURI = "https://issuer.example/lists/1"
	crlURI  = "https://issuer.example/ca.crl"
	crlURI2 = "https://mirror.example/ca.crl"
)

// registry is the server of an issuer's lists.
type registry struct {
	*fixture
	issuer   *wallettest.Issuer
	status   cbor.Item // of the documents
	served   map[string]func() host.FetchResponse
	asked    []string
	err      error // instead of each response
	while    func()
	measured []host.Measurement
	log      bytes.Buffer
}

// newRegistry returns a method whose issuer publishes a status list, by JWT, and a revocation list. In the
// status list, the document 0 is valid, 1 revoked, 2 suspended.
func newRegistry(t *testing.T, changes settings, points ...string) *registry {
	t.Helper()
	issuer := wallettest.NewIssuer(
		wallettest.IssuerConfig{Now: noon, Change: func(n int, c *x509.Certificate) {
			if n == 0 {
				c.CRLDistributionPoints = points
			}
		}},
	)
	all := settings{"trust_anchors": []string{string(issuer.PEM())}}
	maps.Copy(all, changes)
	r := &registry{issuer: issuer, status: wallettest.StatusReference(listURI, 0)}
	c := config(t, "eu-av", all)
	r.fixture = newFixture(t, c)
	h := method.Host{
		Now:     func() time.Time { return r.now },
		Random:  &coretest.Random{},
		Fetch:   r,
		Sign:    sign,
		Verify:  edge.Verify,
		Measure: func(m host.Measurement) { r.measured = append(r.measured, m) },
		Log:     slog.New(slog.NewTextHandler(&r.log, nil)),
	}
	m, err := openid4vp.Kind.Open(c, h.For("wallet"))
	if err != nil {
		t.Fatal(err)
	}
	r.method, r.wallet.Issuer = m.(method.Requester), issuer
	r.served = map[string]func() host.FetchResponse{
		listURI: func() host.FetchResponse { return response("application/statuslist+jwt", r.list().JWT()) },
		crlURI:  func() host.FetchResponse { return response("application/pkix-crl", r.crl()) },
	}
	return r
}

func response(mediaType string, body []byte) host.FetchResponse {
	return host.FetchResponse{Status: 200, Header: map[string]string{"Content-Type": mediaType}, Body: body}
}

// list returns the status list of the present.
func (r *registry) list() wallettest.StatusList {
	return wallettest.StatusList{URI: listURI, Bits: 2, List: []byte{0b11_10_01_00}, Issued: r.now,
		Expires: r.now.Add(time.Hour), TTL: 10 * time.Minute, Key: r.issuer.Key, Chain: r.issuer.Chain}
}

// crl returns the revocation list of the present.
func (r *registry) crl(serials ...int64) []byte {
	l := &x509.RevocationList{ThisUpdate: r.now, NextUpdate: r.now.AddDate(0, 0, 7)}
	for _, n := range serials {
		l.RevokedCertificateEntries = append(l.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: big.NewInt(n), RevocationTime: r.now})
	}
	return r.issuer.CRL(l)
}

// Fetch implements host.Fetcher.
func (r *registry) Fetch(_ context.Context, q host.FetchRequest) (host.FetchResponse, error) {
	r.asked = append(r.asked, q.Method+" "+q.URL)
	if q.For != "wallet" || len(q.Body) > 0 || len(q.Header) != 1 || q.Header["Accept"] == "" {
		r.Errorf("contract 54: the request %+v", q)
	}
	if while := r.while; while != nil {
		r.while = nil
		while()
	}
	serve, ok := r.served[q.URL]
	if r.err != nil {
		return host.FetchResponse{}, r.err
	}
	if !ok {
		return host.FetchResponse{Status: http.StatusNotFound}, nil
	}
	return serve(), nil
}

// answer has the wallet answer with a document, and returns the result: the verdict's reason, "approved", or
// the reason of a rejection or of an error.
func (r *registry) answer() string {
	r.Helper()
	r.session.ResponseURI = box
	kept, err := r.send(r.message(r.shows().Code, func(p *wallettest.Presentation) { p.Status = r.status }))
	var rejection *method.Rejection
	var fetch *host.FetchError
	switch {
	case errors.As(err, &rejection):
		return "refused: " + rejection.Reason
	case errors.As(err, &fetch):
		return "error: " + fetch.Reason
	case err != nil:
		r.Fatal(err)
	}
	return result(r.act(nil, kept))
}

func result(d method.Decision) string {
	switch {
	case d.Verdict == method.Approved:
		return "approved"
	case d.Verdict == method.AttemptFailed && d.Rejection != nil:
		return string(d.Reason) + ": " + d.Rejection.Reason
	}
	return string(d.Reason)
}

// warnings returns the reasons of what counted unchecked.
func (r *registry) warnings() (reasons []string) {
	for _, m := range r.measured {
		if m.Event == metric.MethodUnchecked && m.Method == "wallet" {
			reasons = append(reasons, m.Reason)
		}
	}
	return reasons
}

// revocationCase is a document and its lists, and the result by the setting.
type revocationCase struct {
	name                string
	change              func(r *registry)
	ifPresent, required string
	warned              string // with if_present
	noPoint             bool   // in the signer's certificate
}

func reference(members ...cbor.Pair) cbor.Item {
	return cbor.Map(cbor.Pair{Key: cbor.Text("status_list"), Value: cbor.Map(members...)})
}

func idx(n int64) cbor.Pair { return cbor.Pair{Key: cbor.Text("idx"), Value: cbor.Integer(n)} }

var uri = cbor.Pair{Key: cbor.Text("uri"), Value: cbor.Text(listURI)}

var revocationCases = []revocationCase{
	{name: "a valid document", ifPresent: "approved", required: "approved"},
	{name: "a valid document, by CWT", change: func(r *registry) {
		r.served[listURI] = func() host.FetchResponse {
			return response("application/statuslist+cwt", r.list().CWT())
		}
	}, ifPresent: "approved", required: "approved"},
	{name: "a revoked document", change: func(r *registry) {
		r.status = wallettest.StatusReference(listURI, 1)
	}, ifPresent: "document_revoked", required: "document_revoked"},
	{name: "a suspended document", change: func(r *registry) {
		r.status = wallettest.StatusReference(listURI, 2)
	}, ifPresent: "document_revoked", required: "document_revoked"},
	{name: "a status of the application", change: func(r *registry) {
		r.status = wallettest.StatusReference(listURI, 3)
	}, ifPresent: "document_revoked", required: "document_revoked"},
	{name: "a revoked signer", change: func(r *registry) {
		r.served[crlURI] = func() host.FetchResponse { return response("", r.crl(100)) }
	}, ifPresent: "signer_revoked", required: "signer_revoked"},
	{name: "another certificate was revoked", change: func(r *registry) {
		r.served[crlURI] = func() host.FetchResponse { return response("", r.crl(99, 101)) }
	}, ifPresent: "approved", required: "approved"},

	{name: "no status", change: func(r *registry) { r.status = cbor.Item{} },
		ifPresent: "approved", required: "unconfirmed: status_missing"},
	{name: "no distribution point", noPoint: true, ifPresent: "approved",
		required: "unconfirmed: crl_missing"},
	{name: "another mechanism", change: func(r *registry) {
		r.status = cbor.Map(cbor.Pair{Key: cbor.Text("identifier_list"), Value: cbor.Map()})
	}, ifPresent: "approved", required: "error: unavailable", warned: "status_unknown"},
	{name: "another mechanism in addition to the list", change: func(r *registry) {
		r.status = wallettest.With(wallettest.StatusReference(listURI, 1), "identifier_list", cbor.Map())
	}, ifPresent: "document_revoked", required: "document_revoked"},

	{name: "a status that is no map", change: func(r *registry) { r.status = cbor.Text("valid") },
		ifPresent: "unconfirmed: status_malformed", required: "unconfirmed: status_malformed"},
	{name: "an empty status", change: func(r *registry) { r.status = cbor.Map() },
		ifPresent: "unconfirmed: status_malformed", required: "unconfirmed: status_malformed"},
	{name: "a negative index", change: func(r *registry) { r.status = reference(idx(-1), uri) },
		ifPresent: "unconfirmed: status_malformed", required: "unconfirmed: status_malformed"},
	{name: "no index", change: func(r *registry) { r.status = reference(uri) },
		ifPresent: "unconfirmed: status_malformed", required: "unconfirmed: status_malformed"},
	{name: "no address", change: func(r *registry) { r.status = reference(idx(0)) },
		ifPresent: "unconfirmed: status_malformed", required: "unconfirmed: status_malformed"},
	{name: "an address of 2,049 bytes", change: func(r *registry) {
		r.status = wallettest.StatusReference("https://i.example/"+strings.Repeat("a", 2049-18), 0)
	}, ifPresent: "unconfirmed: status_malformed", required: "unconfirmed: status_malformed"},
	{name: "an index behind the list", change: func(r *registry) {
		r.status = wallettest.StatusReference(listURI, 4)
	}, ifPresent: "unconfirmed: status_index", required: "unconfirmed: status_index"},

	{name: "the server of the list is off", change: func(r *registry) {
		delete(r.served, listURI)
	}, ifPresent: "approved", required: "error: unavailable", warned: "status_unavailable"},
	{name: "the server of the revocation list is off", change: func(r *registry) {
		delete(r.served, crlURI)
	}, ifPresent: "approved", required: "error: unavailable", warned: "crl_unavailable"},
	{name: "no server is reachable", change: func(r *registry) {
		r.err = &host.FetchError{Reason: host.FetchBlocked, Err: errors.New("the server is off")}
	}, ifPresent: "approved", required: "error: unavailable",
		warned: "status_unavailable,crl_unavailable"},
	{name: "a redirect", change: func(r *registry) {
		r.served[listURI] = func() host.FetchResponse {
			return host.FetchResponse{Status: 302, Header: map[string]string{"Location": listURI + "0",
				"Content-Type": "application/statuslist+jwt"}, Body: r.list().JWT()}
		}
	}, ifPresent: "approved", required: "error: unavailable", warned: "status_unavailable"},
	{name: "http", change: func(r *registry) {
		r.status = wallettest.StatusReference("http://issuer.example/lists/1", 0)
	}, ifPresent: "approved", required: "error: unavailable", warned: "status_unavailable"},
	{name: "a list of another issuer", change: func(r *registry) {
		r.served[listURI] = func() host.FetchResponse {
			l := r.list()
			l.Key, l.Chain = issuers["mdl"].Key, issuers["mdl"].Chain
			return response("application/statuslist+jwt", l.JWT())
		}
	}, ifPresent: "approved", required: "error: unavailable", warned: "status_unavailable"},
	{name: "a revocation list of another issuer", change: func(r *registry) {
		other := *r
		other.issuer = issuers["eu-av"]
		r.served[crlURI] = func() host.FetchResponse { return response("", other.crl()) }
	}, ifPresent: "approved", required: "error: unavailable", warned: "crl_unavailable"},
}

func TestRevocation(t *testing.T) {
	for _, c := range revocationCases {
		for _, setting := range []string{"if_present", "required", "off"} {
			t.Run("contract 54: "+c.name+"/"+setting, func(t *testing.T) {
				points := []string{crlURI}
				if c.noPoint {
					points = nil
				}
				r := newRegistry(t, settings{"revocation": setting}, points...)
				if c.change != nil {
					c.change(r)
				}
				want := map[string]string{
					"if_present": c.ifPresent,
					"required":   c.required,
					"off":        "approved",
				}
				if got := r.answer(); got != want[setting] {
					t.Errorf("the result is %q, want %q", got, want[setting])
				}
				if setting == "off" && len(r.asked) > 0 {
					t.Errorf("asked for %v", r.asked)
				}
				warned := strings.Join(r.warnings(), ",")
				if setting == "if_present" && warned != c.warned || setting != "if_present" && warned != "" {
					t.Errorf("measured %q, want %q with if_present only", warned, c.warned)
				}
				if logged := r.log.String(); (warned != "") != strings.Contains(
					logged,
					"revocation not checked",
				) ||
					strings.Contains(logged, "/lists") ||
					strings.Contains(logged, ".crl") {
					t.Errorf("logged %q", logged)
				}
			})
		}
	}
}

// TestRevocation_Default: documents are checked without the setting.
func TestRevocation_Default(t *testing.T) {
	r := newRegistry(t, nil)
	r.status = wallettest.StatusReference(listURI, 1)
	if got := r.answer(); got != "document_revoked" {
		t.Errorf("contract 54: %q", got)
	}
}

// TestRevocation_Browser: a response by way of the browser is checked, too.
func TestRevocation_Browser(t *testing.T) {
	r := newRegistry(t, settings{"revocation": "required"}, crlURI)
	status := func(p *wallettest.Presentation) { p.Status = r.status }
	r.status = wallettest.StatusReference(listURI, 1)
	d := r.act(r.inBrowser(service, status), nil)
	if result(d) != "document_revoked" || d.Verdict != method.AttemptFailed || d.Rejection != nil ||
		d.Setting != "revocation" || d.Detail != "required" || d.Age != 0 {
		t.Errorf("contract 54: %+v", d)
	}
	r.status = wallettest.StatusReference(listURI, 0)
	r.session.ResponseURI = box
	if d := r.act(r.inBrowser(service, status), nil); d.Verdict != method.Approved {
		t.Errorf("contract 54: %+v", d)
	}
	r.now = r.now.Add(2 * time.Hour)
	r.err = errors.New("off")
	form := r.inBrowser(service, status)
	if d, err := r.method.Act(r.Context(), r.session, method.Step{Form: form, State: r.state}); err == nil {
		t.Errorf("contract 54: nothing is known, and the decision is %+v", d)
	}
}

// TestRevocation_AfterDocument: an address counts only if an issuer has signed it, so nothing is asked for
// before the document has verified.
func TestRevocation_AfterDocument(t *testing.T) {
	for name, change := range map[string]func(r *registry, p *wallettest.Presentation){
		"another issuer": func(_ *registry, p *wallettest.Presentation) { p.Issuer = issuers["eu-av"] },
		"another device": func(_ *registry, p *wallettest.Presentation) { p.SignWith, _ = signing() },
		"another nonce":  func(_ *registry, p *wallettest.Presentation) { p.Session.Nonce = "n" },
		"an expired object": func(_ *registry,
			p *wallettest.Presentation) {
			p.ValidUntil = noon.Add(-time.Minute)
		},
	} {
		r := newRegistry(t, settings{"revocation": "required"}, crlURI)
		m := r.message(r.shows().Code, func(p *wallettest.Presentation) {
			p.Status = r.status
			change(r, p)
		})
		var rejection *method.Rejection
		kept, err := r.send(m)
		isFault := strings.HasPrefix(string(kept), "fault:")
		if !isFault && !errors.As(err, &rejection) || len(r.asked) > 0 {
			t.Errorf("contract 54: %s: %q, %v, asked for %v", name, kept, err, r.asked)
		}
	}
}

func TestRevocation_Cache(t *testing.T) {
	r := newRegistry(t, settings{"revocation": "required"}, crlURI)
	want := func(rule, result string, asked ...string) {
		t.Helper()
		r.asked = nil
		if got := r.answer(); got != result {
			t.Errorf("contract 54: %s: %q, want %q", rule, got, result)
		}
		if !slices.Equal(r.asked, asked) {
			t.Errorf("contract 54: %s: asked for %v, want %v", rule, r.asked, asked)
		}
	}
	list, crl := "GET "+listURI, "GET "+crlURI
	want("the first document", "approved", list, crl)
	r.status = wallettest.StatusReference(listURI, 1)
	want("the next, of the same list", "document_revoked")
	r.status = wallettest.StatusReference(listURI, 0)
	r.now = noon.Add(10*time.Minute - 1)
	want("before the ttl has passed", "approved")
	r.now = noon.Add(10 * time.Minute)
	want("after it", "approved", list)

	r.now = noon.Add(30 * time.Minute)
	r.err = errors.New("off")
	want("the server is off, and the list still counts", "approved", list)
	r.now = r.now.Add(time.Minute - 1)
	want("it is not asked for a minute", "approved")
	r.now = r.now.Add(1)
	want("it is asked again", "approved", list)
	r.now = noon.Add(10*time.Minute + time.Hour)
	want("the list has expired", "error: unavailable", list)
	r.now = r.now.Add(time.Second)
	want("the error counts for a minute", "error: unavailable")
	r.err = nil
	r.now = r.now.Add(time.Minute)
	want("the server is back", "approved", list, crl)

	// An older list is a replay: the document was valid in it.
	old := r.list()
	old.Issued = old.Issued.Add(-time.Second)
	fresh := r.served[listURI]
	r.served[listURI] = func() host.FetchResponse { return response("application/statuslist+jwt", old.JWT()) }
	r.now = r.now.Add(10 * time.Minute)
	want("an older list", "approved", list) // by the list that is kept
	if !strings.Contains(r.log.String(), "older than the previous one") {
		t.Errorf("contract 54: a replayed list is not logged: %s", r.log.String())
	}

	// The list grows with new documents.
	r.served[listURI] = fresh
	r.now = r.now.Add(time.Minute)
	want("the newer one again", "approved", list)
	r.status = wallettest.StatusReference(listURI, 4)
	want("an index behind a list of this minute", "unconfirmed: status_index")
	r.served[listURI] = func() host.FetchResponse {
		l := r.list()
		l.List = append(l.List, 0)
		return response("application/statuslist+jwt", l.JWT())
	}
	r.now = r.now.Add(time.Minute)
	want("an index behind an older list", "approved", list)
}

// TestRevocation_Busy: a user cannot get a revoked document past a list that is just being asked for.
func TestRevocation_Busy(t *testing.T) {
	r := newRegistry(t, nil)
	r.status = wallettest.StatusReference(listURI, 1)
	var results []string
	var nest func(n int) func()
	nest = func(n int) func() {
		return func() {
			if n > 0 {
				r.while = nest(n - 1)
			}
			results = append(results, r.answer())
		}
	}
	r.while = nest(15)
	results = append(results, r.answer())
	slices.Sort(results)
	want := append(slices.Repeat([]string{"document_revoked"}, 16), "error: unavailable")
	if len(r.asked) != 16 || !slices.Equal(results, want) || len(r.warnings()) > 0 {
		t.Errorf("contract 54: %v, want %v; asked %d times", results, want, len(r.asked))
	}
}

// TestRevocation_Points: distribution points are alternatives, and only two of them are asked.
func TestRevocation_Points(t *testing.T) {
	const ldap, third = "ldap://issuer.example/cn=ca", "https://third.example/ca.crl"
	r := newRegistry(t, settings{"revocation": "required"}, ldap, crlURI2, crlURI, third)
	r.status = wallettest.StatusReference(listURI, 0)
	if got := r.answer(); got != "approved" {
		t.Errorf("contract 54: the second: %q", got)
	}
	want := []string{"GET " + listURI, "GET " + crlURI2, "GET " + crlURI}
	if !slices.Equal(r.asked, want) {
		t.Errorf("contract 54: asked for %v, want %v", r.asked, want)
	}
	r = newRegistry(t, settings{"revocation": "required"}, crlURI2, "https://other.example/ca.crl", third)
	r.served[third] = r.served[crlURI]
	if got := r.answer(); got != "error: unavailable" || slices.Contains(r.asked, "GET "+third) {
		t.Errorf("contract 54: the third: %q, asked for %v", got, r.asked)
	}
	r = newRegistry(t, settings{"revocation": "required"}, "http://a.example/ca.crl",
		"http://b.example/ca.crl", crlURI)
	if got := r.answer(); got != "approved" || !slices.Contains(r.asked, "GET "+crlURI) {
		t.Errorf("contract 54: behind addresses by http: %q, asked for %v", got, r.asked)
	}
}

// TestRevocation_Log: a list that is away is logged once a minute, and measured each time.
func TestRevocation_Log(t *testing.T) {
	r := newRegistry(t, nil)
	delete(r.served, listURI)
	for range 3 {
		if got := r.answer(); got != "approved" {
			t.Fatal(got)
		}
	}
	if lines := strings.Count(r.log.String(), "revocation not checked"); lines != 1 ||
		len(r.warnings()) != 3 ||
		!strings.Contains(r.log.String(), "server=issuer.example") ||
		!strings.Contains(r.log.String(), "method=wallet") {
		t.Errorf("contract 54: %d lines, measured %v: %s", lines, r.warnings(), r.log.String())
	}
}

// TestRevocation_HTTP: an address by http is not asked at all.
func TestRevocation_HTTP(t *testing.T) {
	r := newRegistry(t, nil, "http://issuer.example/ca.crl")
	r.status = wallettest.StatusReference("http://issuer.example/lists/1", 0)
	if got := r.answer(); got != "approved" || len(r.asked) > 0 {
		t.Errorf("contract 54: %q, asked for %v", got, r.asked)
	}
	if warned := r.warnings(); !slices.Equal(warned, []string{"status_unavailable", "crl_unavailable"}) {
		t.Errorf("contract 54: measured %v", warned)
	}
}
