package conformance_test

import (
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/internal/methodtest"
	"github.com/verge-id/verge/testharness/wallettest"
)

// registry is the server of an issuer's status list and revocation list.
type registry struct {
	mu      sync.Mutex
	issuer  *wallettest.Issuer
	now     func() time.Time
	url     string
	cbor    bool    // the status list is a CWT
	off     bool    // there is no response but 500
	revoked []int64 // serial numbers
	list    []byte  // the statuses
}

// openRegistry starts the server of a new issuer, with these statuses. Its clock does not move.
func openRegistry(t *testing.T, c wallettest.IssuerConfig, list []byte) *registry {
	t.Helper()
	r := &registry{now: func() time.Time { return testharness.Epoch }, list: list}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.url = server.URL
	c.Now, c.Change = testharness.Epoch, func(n int, c *x509.Certificate) {
		if n == 0 {
			c.CRLDistributionPoints = []string{r.url + "/crl"}
		}
	}
	r.issuer = wallettest.NewIssuer(c)
	return r
}

// document returns the status of a document that has this place in the list.
func (r *registry) document(index int64) cbor.Item {
	return wallettest.StatusReference(r.url+"/list", index)
}

func (r *registry) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

func (r *registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := wallettest.StatusList{URI: r.url + "/list", List: r.list, Issued: r.now(),
		Expires: r.now().Add(time.Hour), Key: r.issuer.Key, Chain: r.issuer.Chain}
	switch {
	case r.off:
		w.WriteHeader(http.StatusInternalServerError)
	case q.URL.Path == "/crl":
		template := &x509.RevocationList{ThisUpdate: r.now(), NextUpdate: r.now().AddDate(0, 0, 7)}
		for _, serial := range r.revoked {
			template.RevokedCertificateEntries = append(template.RevokedCertificateEntries,
				x509.RevocationListEntry{SerialNumber: big.NewInt(serial), RevocationTime: r.now()})
		}
		w.Write(r.issuer.CRL(template))
	case r.cbor:
		w.Header().Set("Content-Type", "application/statuslist+cwt")
		w.Write(list.CWT())
	default:
		w.Header().Set("Content-Type", "application/statuslist+jwt")
		w.Write(list.JWT())
	}
}

// A document counts only if its issuer's lists allow it (contract 54). TestWalletMatrix has revoked documents
// in lists by JWT. This test has revoked signers, lists by CWT, and lists that are not available.
func TestWalletRevocation(t *testing.T) {
	// More bytes than other responses may have (contract 28), and none of them can be compressed.
	statuses := make([]byte, 100<<10)
	_, _ = rand.Read(statuses) // it never fails
	statuses[0] = 0b10         // the first document is valid, and the second revoked
	r := openRegistry(t, wallettest.IssuerConfig{Curve: elliptic.P521()}, statuses)
	o := &opts{}
	for name, revocation := range map[string]string{"required": "required", "present": "if_present"} {
		addWallet(t, o, name, map[string]any{"profile": "eu-av", "revocation": revocation,
			"trust_anchors": []string{string(r.issuer.PEM())}})
	}
	h := newHarness(t, o)
	r.set(func() { r.now = h.Now })
	wallet := wallettest.New(r.issuer)
	wallet.Now = h.Now
	valid, revoked := r.document(0), r.document(1)

	// walk has the wallet answer a method, and returns the status of the wallet's POST, the page after it,
	// and the status of the session.
	walk := func(name string, status cbor.Item) (posted int, done *testharness.Page, session string) {
		t.Helper()
		h.Offer(h.Publisher.L2, name)
		started := h.Start(testharness.Body{"integration_id": h.Publisher.L2.ID})
		page := h.Open(started.RedirectURL).Submit("begin")
		wallet.Client = &http.Client{Transport: methodtest.Carrier{Page: page}}
		reply, err := wallet.Answer(t.Context(), page.Code,
			func(p *wallettest.Presentation) { p.Status = status })
		if err != nil {
			t.Fatal(err)
		}
		done = page.LoadAgain()
		return reply.Status, done, h.Reconcile(started.SessionID).Text("status")
	}
	want := func(rule, name string, status cbor.Item, posted int, session, reason string) {
		t.Helper()
		gotPosted, done, gotSession := walk(name, status)
		if gotPosted != posted || gotSession != session ||
			(done.Callback != nil) != (session == "COMPLETED") {
			t.Errorf(
				"contract 54: %s: the wallet gets %d, want %d; the session is %s, want %s; a %s page",
				rule,
				gotPosted,
				posted,
				gotSession,
				session,
				done.Kind,
			)
		}
		if reason != "" && !strings.Contains(h.Logs(), reason) {
			t.Errorf("contract 54: %s: the log has no %s", rule, reason)
		}
	}
	const completed, pending = "COMPLETED", "PENDING"
	want("a valid document", "required", valid, 200, completed, "")

	r.set(func() { r.cbor, r.revoked = true, []int64{100} })
	h.Advance(61 * time.Minute)
	want("a document of a revoked signer", "required", valid, 200, pending, "signer_revoked")
	r.set(func() { r.revoked = nil })
	h.Advance(61 * time.Minute)
	want("a revoked document, by CWT", "required", revoked, 200, pending, "document_revoked")
	want("a valid document, by CWT", "required", valid, 200, completed, "")

	r.set(func() { r.off = true })
	h.Advance(24 * 8 * time.Hour)
	want("the lists have expired, and nothing is decided", "required", valid, 503, pending, "unavailable")
	want("the lists have expired, and the document counts", "present", valid, 200, completed,
		"revocation not checked")
	if metrics := h.Metrics(); !inWorker && !strings.Contains(metrics, "status_unavailable") {
		t.Error("contract 54: the metrics have no document that counted unchecked")
	}
}
