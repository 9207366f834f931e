package openid4vp

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/fetchcache"
	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/core/internal/metric"
	"github.com/verge-id/verge/core/internal/revocation"
	"github.com/verge-id/verge/core/internal/weburl"
)

// listPolicy is how often a list is asked for: once a minute. Up to 16 requests ask at the same time while no
// list is at hand.
var listPolicy = fetchcache.Policy{Window: time.Minute, Burst: 16, Retries: 4, Failure: time.Minute,
	Renewal: time.Minute}

// Limits of the lists of a method.
const (
	maxLists     = 128
	maxListBytes = 8 << 20 // of all of them together
	maxPoints    = 2       // addresses of revocation lists of one certificate
	listTimeout  = 5 * time.Second
)

// list is a *revocation.StatusList or a *revocation.CRL.
type list interface {
	Size() int
	Dating() revocation.Dates
}

// fetched is a list with the time when it was asked for.
type fetched struct {
	list list
	at   time.Time
}

// lists are the lists that a method keeps in memory.
type lists = fetchcache.Shelf[fetched]

func newLists() *lists {
	return &lists{Most: maxLists, Bytes: maxListBytes, Size: func(f fetched) int { return f.list.Size() }}
}

// Errors of lists.
var (
	errListStatus = errors.New("openid4vp: the response has another status than 200")
	errListOlder  = errors.New("openid4vp: the list is older than the previous one")
	errMechanism  = errors.New("openid4vp: the document's status is published by a mechanism other than a " +
		"status list")
	errAddress  = errors.New("openid4vp: the address is no https address")
	errCRLScope = errors.New("openid4vp: the revocation list is of other certificates")
)

// check is the check of one document for revocation.
type check struct {
	*openID
	ctx context.Context
	now time.Time
	by  mdoc.Lists
}

// revoked returns the kept result of a document that was revoked, or whose signer was, and "" for every other
// one. It is called for documents that have verified, because only those have addresses of an issuer. The
// error is a *method.Rejection for a document that cannot be looked up, or a *host.FetchError for a list that
// is not available.
func (o *openID) revoked(ctx context.Context, ask mdoc.Ask, p mdoc.Proof) (result string, err error) {
	if o.settings.revocation == off {
		return "", nil
	}
	c := check{o, ctx, ask.Now, ask.ListsOf(p)}
	is, err := c.document(p.Status)
	switch {
	case err != nil:
		return "", err
	case is:
		return documentRevokedKept, nil
	}
	for n := range c.by.Path() {
		if c.by.Path()[n].Equal(p.Anchor.Certificate) { // its trusted list revokes it (contract 53)
			continue
		}
		is, err := c.certificate(n)
		switch {
		case err != nil:
			return "", err
		case is:
			return signerRevokedKept, nil
		}
	}
	return "", nil
}

// document reports whether a document was revoked or suspended.
func (c check) document(s mdoc.Status) (revoked bool, err error) {
	switch s.Kind {
	case mdoc.NoStatus:
		if c.settings.revocation == required {
			return false, rejected("status_missing")
		}
		return false, nil
	case mdoc.OtherStatus:
		return false, c.unchecked("status_unknown", "", true, errMechanism)
	case mdoc.StatusList:
	default:
		return false, rejected("status_malformed")
	}
	d := c.lists.Document("status " + s.URI + " " + c.by.StatusIssuers())
	fetch := func() (list, error) {
		body, mediaType, err := c.get(s.URI, revocation.JWT+", "+revocation.CWT+";q=0.9")
		if err != nil {
			return nil, err
		}
		return revocation.ReadStatusList(c.ctx, body, mediaType, s.URI, c.by, c.now)
	}
	l, asked, err := c.take(d, s.URI, fetch)
	if err != nil {
		return false, c.unchecked("status_unavailable", s.URI, asked, err)
	}
	status, ok := statusIn(l, s.Index)
	if old := c.now.Sub(l.at) >= listPolicy.Renewal; !ok && old && d.MayRenew(c.now, listPolicy) {
		// The issuer may have made the list longer for new documents.
		if l, err = c.renew(d, fetch); err != nil {
			return false, c.unchecked("status_unavailable", s.URI, true, err)
		}
		status, ok = statusIn(l, s.Index)
	}
	if !ok {
		return false, rejected("status_index")
	}
	return status != revocation.Valid, nil
}

// statusIn returns the status of a document in a list.
func statusIn(l fetched, index int64) (status int, ok bool) {
	s, ok := l.list.(*revocation.StatusList)
	if !ok {
		return 0, false
	}
	return s.Status(index)
}

// certificate reports whether a certificate of the path was revoked. Its distribution points are
// alternatives.
func (c check) certificate(n int) (revoked bool, err error) {
	certificate := c.by.Path()[n]
	points := c.points(certificate)
	if len(points) == 0 {
		if c.settings.revocation == required {
			return false, rejected("crl_missing")
		}
		return false, nil
	}
	var at string
	var askedOne bool
	for _, address := range points {
		d := c.lists.Document("crl " + address + " " + c.by.CRLIssuers(n))
		l, asked, failed := c.take(d, address, func() (list, error) {
			der, _, err := c.get(address, "application/pkix-crl")
			if err != nil {
				return nil, err
			}
			return revocation.ReadCRL(c.ctx, der, c.by, n, c.now)
		})
		if crl, ok := l.list.(*revocation.CRL); ok && failed == nil {
			if is, ok := crl.Revoked(certificate); ok {
				return is, nil
			}
			failed = errCRLScope
		}
		// A list that is just being asked for may still come, so it outweighs a list that has failed.
		if at, askedOne = address, askedOne || asked; !errors.Is(err, fetchcache.ErrBusy) {
			err = failed
		}
	}
	return false, c.unchecked("crl_unavailable", at, askedOne, err)
}

// points returns the addresses of a certificate's revocation list: those by https, or without one, those by
// http. They are not asked, and the log warns of them.
func (c check) points(certificate *x509.Certificate) []string {
	var points, others []string
	for _, address := range certificate.CRLDistributionPoints {
		switch {
		case weburl.IsEndpoint(address, c.settings.dev):
			points = append(points, address)
		case strings.HasPrefix(address, "http"): // not LDAP
			others = append(others, address)
		}
	}
	if len(points) == 0 {
		points = others
	}
	return points[:min(len(points), maxPoints)]
}

// take returns a list, which fetch asks for if it must. If a newer one is not available, it returns the old
// list as long as that counts. asked reports that it has asked.
func (c check) take(d *fetchcache.Document[fetched], address string, fetch func() (list, error)) (
	l fetched, asked bool, err error) {
	l, asked, err = d.Get(c.now, listPolicy, func() (fetchcache.Copy[fetched], error) {
		return c.copyOf(d, fetch)
	})
	if err == nil || !asked {
		return l, asked, err
	}
	if old, ok := d.Last(c.now); ok {
		c.host.Log.WarnContext(c.ctx, "list not renewed", "method", c.name, "server", serverOf(address),
			"error", err.Error())
		return old, true, nil
	}
	return l, true, err
}

// renew asks for a list although the present one is fresh.
func (c check) renew(d *fetchcache.Document[fetched], fetch func() (list, error)) (l fetched, err error) {
	copied, err := c.copyOf(d, fetch)
	if err != nil {
		return l, err
	}
	d.Put(c.now, copied)
	return copied.Value, nil
}

// copyOf asks for a list. An older list than the present one is a replay.
func (c check) copyOf(d *fetchcache.Document[fetched], fetch func() (list, error)) (
	k fetchcache.Copy[fetched], err error) {
	l, err := fetch()
	if err != nil {
		return k, err
	}
	dates := l.Dating()
	if old, ok := d.Last(c.now); ok && dates.Issued.Before(old.list.Dating().Issued) {
		return k, errListOlder
	}
	return fetchcache.Copy[fetched]{Value: fetched{l, c.now}, Fresh: dates.Fresh, Until: dates.Until}, nil
}

// get fetches a whole list. The request names the list, and not the document.
func (c check) get(address, accept string) (body []byte, mediaType string, err error) {
	if !weburl.IsEndpoint(address, c.settings.dev) {
		return nil, "", errAddress
	}
	resp, err := c.host.Fetch.Fetch(c.ctx, host.FetchRequest{Method: "GET", URL: address,
		Header: map[string]string{"Accept": accept}, Timeout: listTimeout})
	if err != nil {
		return nil, "", err
	}
	if resp.Status != 200 {
		return nil, "", fmt.Errorf("%w: %d", errListStatus, resp.Status)
	}
	mediaType, _, _ = strings.Cut(resp.Header["Content-Type"], ";")
	return resp.Body, strings.ToLower(strings.TrimSpace(mediaType)), nil
}

// unchecked returns the error of a check that needs a list that is not available. Where the setting allows
// it, the document counts without, and this is measured, and logged if the list was asked for. While another
// request asks for the list, nothing is decided: it may say that the document was revoked.
func (c check) unchecked(reason, address string, asked bool, cause error) error {
	if c.settings.revocation == required || errors.Is(cause, fetchcache.ErrBusy) {
		return &host.FetchError{Reason: host.FetchUnavailable,
			Err: fmt.Errorf("openid4vp: revocation not checked, %s: %w", reason, cause)}
	}
	c.host.Measure(host.Measurement{Event: metric.MethodUnchecked, Reason: reason})
	if asked {
		c.host.Log.WarnContext(
			c.ctx,
			"revocation not checked",
			"method",
			c.name,
			"reason",
			reason,
			"server",
			serverOf(address),
			"error",
			cause.Error(),
		)
	}
	return nil
}

// serverOf returns the server of an address, for logs. The rest may name a document.
func serverOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}
