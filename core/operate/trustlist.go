package operate

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/liststore"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/web"
)

// States of a TrustList.
const (
	ListMissing = "missing" // no list is stored
	ListDamaged = "damaged" // the stored one is not authentic
	ListGood    = "good"    // its next update is not due
	ListLate    = "late"    // its next update is due, and its certificates still count
	ListTooOld  = "too_old" // its grace is over, and its certificates do not count
)

// TrustList is a trusted list that the settings of a method name, and the last good list that is stored for
// it (contract 53). Without a stored list, the fields from Sequence on are empty.
type TrustList struct {
	Method string `json:"method"`
	Name   string `json:"name"`
	Source string `json:"source"` // the address or the path
	Format string `json:"format"`
	Grace  int64  `json:"grace"` // seconds
	State  string `json:"state"`

	// Configuration identifies source, format, signers and document type. A list is loaded for one of them.
	Configuration string `json:"configuration"`

	Sequence   uint64     `json:"sequence,omitempty"`
	Issued     *time.Time `json:"issued,omitempty"`
	NextUpdate *time.Time `json:"next_update,omitempty"`
	Fetched    *time.Time `json:"fetched,omitempty"`

	Issuer      string `json:"issuer,omitempty"`
	Signer      string `json:"signer,omitempty"`             // the subject of the certificate that signed it
	Fingerprint string `json:"signer_fingerprint,omitempty"` // its SHA-256 in hex
	Document    string `json:"document,omitempty"`           // SHA-256 of the list in hex

	Entries int `json:"entries"` // certificates that are used
	Skipped int `json:"skipped"` // certificates of the list that are not
}

// TrustListInput is a list that the caller has verified with the configuration of the method.
type TrustListInput struct {
	Method        string    `json:"method" need:"Required: the name of the method."`
	Name          string    `json:"name" need:"Required: the name of the list."`
	Configuration string    `json:"configuration" need:"Required: the list's configuration, as GET returns it."`
	Sequence      int       `json:"sequence"`
	Issued        time.Time `json:"issued" need:"Required: a time of the list."`
	NextUpdate    time.Time `json:"next_update" need:"Required: a time of the list."`
	Issuer        string    `json:"issuer"`
	Signer        string    `json:"signer"`
	Fingerprint   string    `json:"signer_fingerprint" need:"Required: the SHA-256 of the signer's certificate."`
	Document      string    `json:"document" need:"Required: the SHA-256 of the list."`
	Skipped       int       `json:"skipped"`
	Certificates  []string  `json:"certificates" need:"Required: the certificates of the list, each in DER as base64."`
}

// TrustLists returns the lists of all methods, in the order of the configuration.
func (o *Operations) TrustLists(ctx context.Context, who Actor) ([]TrustList, error) {
	if err := who.may(trustListRead, ""); err != nil {
		return nil, err
	}
	return o.trustLists(ctx)
}

func (o *Operations) trustLists(ctx context.Context) ([]TrustList, error) {
	return readLists(ctx, o.Lists, o.Catalog, o.Now())
}

// StoredLists returns the lists of all methods as the store of a host has them, for a check of a
// configuration.
func StoredLists(ctx context.Context, h host.Host, methods method.Catalog) ([]TrustList, error) {
	return readLists(ctx, &liststore.Store{Host: host.WithDefaults(h)}, methods, h.Now())
}

func readLists(ctx context.Context, s *liststore.Store, methods method.Catalog, now time.Time) (
	all []TrustList, err error) {
	for _, e := range methods {
		for _, l := range e.Lists() {
			stored, err := s.Read(ctx, e.Name, l)
			damaged := errors.Is(err, token.ErrRecord)
			if err != nil && !damaged && !errors.Is(err, method.ErrNoList) {
				return nil, err
			}
			v := viewList(e.Name, l, stored, now)
			if damaged {
				v.State = ListDamaged
			}
			all = append(all, v)
		}
	}
	return all, nil
}

// viewList returns the view of a list. The zero stored list is none.
func viewList(of string, l method.TrustList, stored liststore.List, now time.Time) TrustList {
	v := TrustList{Method: of, Name: l.Name, Source: l.Source(), Format: l.Format,
		Grace: int64(l.Grace / time.Second), State: ListMissing, Configuration: l.Digest()}
	if stored.At.IsZero() {
		return v
	}
	switch {
	case !l.Counts(stored.NextUpdate, now):
		v.State = ListTooOld
	case now.After(stored.NextUpdate):
		v.State = ListLate
	default:
		v.State = ListGood
	}
	v.Sequence, v.Fetched = stored.Sequence, &stored.At
	v.Issued, v.NextUpdate = &stored.Issued, &stored.NextUpdate
	v.Issuer, v.Signer = stored.Issuer, stored.Signer
	v.Fingerprint, v.Document = stored.Fingerprint, stored.Document
	v.Entries, v.Skipped = stored.Entries, stored.Skipped
	return v
}

// listOf returns a list of the configuration.
func (o *Operations) listOf(of, name string) (method.Entry, method.TrustList, error) {
	e, ok := o.Catalog.Find(of)
	if !ok {
		return e, method.TrustList{}, web.ErrNotFound
	}
	lists := e.Lists()
	at := slices.IndexFunc(lists, func(l method.TrustList) bool { return l.Name == name })
	if at < 0 {
		return e, method.TrustList{}, web.ErrNotFound
	}
	return e, lists[at], nil
}

// LoadTrustList stores a list that the caller has verified (contract 53). It is rejected if it is for another
// configuration, if it is too old, and if the stored one has a higher number. Certificates that the method
// cannot use are not stored.
func (o *Operations) LoadTrustList(ctx context.Context, who Actor, in TrustListInput) (TrustList, error) {
	if err := who.may(trustListLoad, ""); err != nil {
		return TrustList{}, err
	}
	if o.HostFetchesLists && who != hostActor {
		return TrustList{}, errConflict("This service fetches and verifies its trusted lists itself, so " +
			"none is loaded by the operators' API. Name the list's address or file in the configuration.")
	}
	wrong := o.wrong()
	certificates := readListed(&wrong, in.Certificates)
	if err := wrong.err(); err != nil {
		return TrustList{}, err
	}
	e, l, err := o.listOf(in.Method, in.Name)
	if err != nil {
		return TrustList{}, err
	}
	if in.Configuration != l.Digest() {
		return TrustList{}, errConflict("The list was verified for another configuration than this " +
			"service has: its source, format, signers or document type differ. Use its configuration.")
	}
	list := liststore.List{Sequence: uint64(in.Sequence), Issued: in.Issued, NextUpdate: in.NextUpdate,
		Issuer: in.Issuer, Signer: in.Signer, Fingerprint: in.Fingerprint, Document: in.Document,
		Skipped: in.Skipped}
	usable := slices.DeleteFunc(certificates, func(der []byte) bool {
		return e.Of.IsAnchor == nil || !e.Of.IsAnchor(der)
	})
	list.Skipped += len(certificates) - len(usable)
	stored, err := o.Lists.Load(ctx, e.Name, l, list, usable, func(before *liststore.List) ([]kv.Put, error) {
		return o.auditEntry(who, trustListLoad, "", e.Name+"/"+l.Name, listChanges(before, list)...)
	})
	if err != nil {
		return TrustList{}, listError(err)
	}
	return viewList(e.Name, l, stored, o.Now()), nil
}

// readListed reads the certificates of an input.
func readListed(wrong *invalid, texts []string) (all [][]byte) {
	for _, text := range texts {
		der, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(der) == 0 {
			wrong.add("certificates", "value", "Must be certificates in DER, each as base64.")
			return nil
		}
		all = append(all, der)
	}
	return all
}

// listChanges returns the changes of a list for the audit.
func listChanges(before *liststore.List, after liststore.List) []change {
	if before == nil {
		before = &liststore.List{}
	}
	number := func(l liststore.List) string { return strconv.FormatUint(l.Sequence, 10) }
	var all []change
	for _, c := range []change{
		{Field: "sequence", From: number(*before), To: number(after)},
		{Field: "signer_fingerprint", From: before.Fingerprint, To: after.Fingerprint},
		{Field: "document", From: before.Document, To: after.Document},
	} {
		if c.From != c.To {
			all = append(all, c)
		}
	}
	return all
}

// listErrors are the reasons and messages of the errors of package liststore.
var listErrors = []struct {
	err             error
	reason, message string
}{
	{liststore.ErrLower, "lower_number",
		"The stored list has a higher sequence number, or was issued later; nothing was changed."},
	{liststore.ErrContent, "other_content", "The stored list has the same sequence number and other " +
		"content; nothing was changed. Ask the list's operator for a list with a higher number."},
	{liststore.ErrTooOld, "too_old", "The list is past its next update and the grace; nothing was changed. " +
		"Fetch a newer one."},
	{liststore.ErrFuture, "dates", "The list is dated in the future, or its next update is before its " +
		"issue or more than two years away; nothing was changed. Check the clock of this service and the " +
		"list's dates."},
	{liststore.ErrTooMany, "too_many",
		"The list has too many certificates that the method could use; nothing was changed."},
}

// listError returns the API error for an error of package liststore.
func listError(err error) error {
	for _, l := range listErrors {
		if errors.Is(err, l.err) {
			return &web.Error{Code: web.InvalidRequest, Message: l.message, Cause: err}
		}
	}
	return err
}

// ListReason returns the constant reason of an error of LoadTrustList, for logs and metrics. It is "" for
// errors that are not about the list, such as the store's errors.
func ListReason(err error) string {
	for _, l := range listErrors {
		if errors.Is(err, l.err) {
			return l.reason
		}
	}
	return ""
}

// HostLists are the operations with trusted lists of the core's host, which needs no right for them. The
// audit names the configuration as the actor.
type HostLists struct{ Operations *Operations }

// hostActor is the actor of a host.
var hostActor = Actor{Kind: KindFile, Role: RoleOperator}

// All is Operations.TrustLists.
func (h HostLists) All(ctx context.Context) ([]TrustList, error) { return h.Operations.trustLists(ctx) }

// Load is Operations.LoadTrustList.
func (h HostLists) Load(ctx context.Context, in TrustListInput) (TrustList, error) {
	return h.Operations.LoadTrustList(ctx, hostActor, in)
}

// Claim reports whether this instance may fetch a list. No other instance may until then.
func (h HostLists) Claim(ctx context.Context, of, name string, until time.Time) (bool, error) {
	_, l, err := h.Operations.listOf(of, name)
	if err != nil {
		return false, err
	}
	return h.Operations.Lists.Claim(ctx, of, l, until)
}
