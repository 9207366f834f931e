package method

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/verge-id/verge/core/internal/verdict"
)

// TrustList is a trusted list that the settings of a method name: a signed list of the certificates that may
// issue documents (contract 53). The host fetches and verifies it, and the core stores the last good one.
type TrustList struct {
	Name    string   // unique in the method
	URL     string   // the address of the list; or File
	File    string   // the path of a file on the machine of the host
	Format  string   // one of ListFormats
	Signers [][]byte // certificates in DER; the list is signed by one of them
	DocType string   // the type of the documents whose issuers are wanted

	Grace time.Duration // how long the list counts after its next update is due
}

// ListFormats are the formats of trusted lists: ETSI TS 119 612 (XML), ETSI TS 119 602 (JSON) and ISO/IEC
// 18013-5 Annex C (CBOR).
var ListFormats = []string{"etsi-ts-119612", "etsi-ts-119602", "vical"}

// Source returns the address or the file of the list.
func (l TrustList) Source() string {
	if l.URL != "" {
		return l.URL
	}
	return l.File
}

// Digest identifies the configuration of the list. A list that was stored under another configuration does
// not count: its source, its format, its signers or its documents were others. The grace may change.
func (l TrustList) Digest() string {
	parts := []string{l.URL, l.File, l.Format, l.DocType}
	var signers []string
	for _, der := range l.Signers {
		signers = append(signers, string(der))
	}
	slices.Sort(signers)
	return verdict.Digest(append(parts, slices.Compact(signers)...)...)
}

// Counts reports whether a list with this next update still counts.
func (l TrustList) Counts(nextUpdate, now time.Time) bool { return !now.After(nextUpdate.Add(l.Grace)) }

// ListedAnchors are the certificates of a stored list.
type ListedAnchors struct {
	Certificates [][]byte // in DER
	Content      string   // a hash of the certificates: equal for equal certificates
}

// ErrNoList means that no list is stored that counts now: none was loaded yet, or its grace is over.
var ErrNoList = errors.New("method: no trusted list that counts now")

// TrustLists returns the certificates of stored lists.
type TrustLists interface {
	// Anchors returns the certificates of a list. The error is ErrNoList, or one of the store: then nothing
	// is known, and the caller denies.
	Anchors(ctx context.Context, method string, l TrustList) (ListedAnchors, error)
}

// noLists is the TrustLists of a host without a store.
type noLists struct{}

func (noLists) Anchors(context.Context, string, TrustList) (ListedAnchors, error) {
	return ListedAnchors{}, ErrNoList
}

// Anchors returns the certificates of a list of the method.
func (h Host) Anchors(ctx context.Context, l TrustList) (ListedAnchors, error) {
	if h.TrustLists == nil {
		return noLists{}.Anchors(ctx, h.name, l)
	}
	return h.TrustLists.Anchors(ctx, h.name, l)
}
