// Package listfetch fetches the trusted lists of methods and verifies them (contract 53). [Source.Get] does
// it for one list. A [Refresher] keeps the stored lists of a service fresh.
//
// A list that is verified here still has to pass the rules of the store: operate.Operations.LoadTrustList
// rejects a list that is older than the stored one.
package listfetch

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/edge/internal/trustlist"
)

// Reasons of a failure that are neither of host.FetchError nor of the verification.
const (
	reasonStatus = "status" // the response has another status than 200
	reasonFile   = "file"   // the file cannot be read
	reasonNumber = "number" // the sequence number is out of range
	reasonStore  = "store"  // the store does not respond
	reasonOther  = "other"
)

// withoutNextUpdate is how long after its issue a list without a next update is due.
const withoutNextUpdate = 90 * 24 * time.Hour

// failure is the reason why a list was not fetched or is not good. Reason is a constant text, for logs and
// metrics.
type failure struct {
	Reason string
	Err    error
}

func (e *failure) Error() string { return e.Err.Error() }

// Unwrap returns e.Err.
func (e *failure) Unwrap() error { return e.Err }

// reasonOf returns the reason of an error of this package, or of operate.HostLists.
func reasonOf(err error) string {
	if failed, ok := errors.AsType[*failure](err); ok {
		return failed.Reason
	}
	if reason := operate.ListReason(err); reason != "" {
		return reason
	}
	if kv.Failed(err) {
		return reasonStore
	}
	return reasonOther
}

// Source fetches lists. All fields are required.
type Source struct {
	Fetch    host.Fetcher
	ReadFile func(path string, limit int) ([]byte, error) // returns at most limit bytes
	Now      func() time.Time
}

// Get fetches a list of the method of that name, or reads its file, and verifies it. The error is a *failure.
func (s Source) Get(ctx context.Context, of string, l method.TrustList) (operate.TrustListInput, error) {
	document, err := s.document(ctx, of, l)
	if err != nil {
		return operate.TrustListInput{}, err
	}
	return verify(of, l, document, s.Now())
}

// document returns the bytes of a list, at most one more than a list may have.
func (s Source) document(ctx context.Context, of string, l method.TrustList) ([]byte, error) {
	const limit = trustlist.MaxSize + 1
	if l.File != "" {
		document, err := s.ReadFile(l.File, limit)
		if err != nil {
			return nil, &failure{
				reasonFile,
				fmt.Errorf("the file of the trusted list cannot be read: %w", err),
			}
		}
		return document, nil
	}
	resp, err := s.Fetch.Fetch(ctx, host.FetchRequest{Method: "GET", URL: l.URL, For: of, MaxBody: limit})
	var failed *host.FetchError
	switch {
	case errors.As(err, &failed):
		return nil, &failure{failed.Reason, fmt.Errorf("the trusted list was not fetched: %w", err)}
	case err != nil:
		return nil, &failure{host.FetchNetwork, fmt.Errorf("the trusted list was not fetched: %w", err)}
	case resp.Status != 200:
		do := "check the address"
		if resp.Status/100 == 3 {
			do = "use the address that returns the list without a redirect"
		}
		return nil, &failure{
			reasonStatus,
			fmt.Errorf("the trusted list was not fetched: the response has the status %d; %s", resp.Status,
				do),
		}
	}
	return resp.Body, nil
}

// verify verifies a list of the method of that name, and returns the input of operate.LoadTrustList. The
// error is a *failure. The grace and the sequence number are left to that operation.
func verify(of string, l method.TrustList, document []byte, now time.Time) (operate.TrustListInput, error) {
	var signers []*x509.Certificate
	for _, der := range l.Signers {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return operate.TrustListInput{}, &failure{
				reasonOther,
				fmt.Errorf("a signer of the settings: %w", err),
			}
		}
		signers = append(signers, c)
	}
	list, err := trustlist.Read(trustlist.Format(l.Format), document,
		trustlist.Expected{Signers: signers, DocType: l.DocType}, now)
	var wrong *trustlist.Error
	switch {
	case errors.As(err, &wrong):
		return operate.TrustListInput{}, &failure{string(wrong.Reason), err}
	case err != nil:
		return operate.TrustListInput{}, &failure{reasonOther, err}
	case list.Sequence > math.MaxInt64:
		return operate.TrustListInput{}, &failure{reasonNumber,
			errors.New("trusted list rejected: its sequence number is too large")}
	}
	return input(of, l, list, document), nil
}

func input(of string, l method.TrustList, list trustlist.List, document []byte) operate.TrustListInput {
	hash, signer := sha256.Sum256(document), sha256.Sum256(list.Signer.Raw)
	in := operate.TrustListInput{
		Method:        of,
		Name:          l.Name,
		Configuration: l.Digest(),
		Sequence:      int(list.Sequence),
		Issued:        list.Issued.UTC(),
		NextUpdate:    list.NextUpdate.UTC(),
		Issuer:        list.Issuer,
		Signer:        list.Signer.Subject.String(),
		Fingerprint:   hex.EncodeToString(signer[:]),
		Document:      hex.EncodeToString(hash[:]),
		Certificates:  []string{},
	}
	if list.NextUpdate.IsZero() {
		in.NextUpdate = in.Issued.Add(withoutNextUpdate)
	}
	for _, e := range list.Entries {
		in.Certificates = append(in.Certificates, base64.StdEncoding.EncodeToString(e.Raw))
	}
	for _, n := range list.Skipped {
		in.Skipped += n
	}
	return in
}
