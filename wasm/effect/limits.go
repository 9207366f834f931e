package effect

import (
	"errors"
	"fmt"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/wasm/abi"
)

// errExcessive is the error for an effect that exceeds all of the core's. The guest is then not the core,
// or it is broken.
var errExcessive = errors.New("effect: asks for more than is granted")

// Limits of effects. A Tx has its own limits, which every store checks.
const (
	maxPage     = 1024                 // items of a List, tasks of a Claim
	maxName     = 16 << 10             // bytes of a name to look up, which may contain a request's whole URL
	maxCharges  = kv.MaxTx             // of a Spend
	maxURL      = 8 << 10              // bytes of a Fetch's URL
	maxMethod   = 16                   // bytes of a Fetch's method
	maxFields   = 64                   // header fields of a Fetch
	maxHeader   = 80 << 10             // bytes of all header fields together; an access token may have 64 KiB
	maxBody     = 2 << 20              // bytes of a Fetch's body
	maxShort    = 64                   // bytes of the name of a verification method or of a key
	maxMessage  = 4 << 20              // bytes of a message to sign, such as one with a body in base64
	maxPublic   = 4 << 10              // bytes of a public key, in DER
	maxSigned   = 1 << 10              // bytes of a signature to verify; RSA with 8,192 bits has the largest
	maxProof    = 1 << 20              // bytes of a zero-knowledge proof, and of a value that it shows
	maxDocument = 255                  // bytes of a name in a document with a proof
	maxSpan     = 366 * 24 * time.Hour // of a lease, a counter's step or its burst
	lastSecond  = 253402300799         // of the year 9999; RFC 3339 cannot express later times
)

func excessive(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errExcessive, fmt.Sprintf(format, args...))
}

// Plausible reports whether a time is the zero time or is between 1970 and 9999. Other times overflow the
// numbers of stores and schedules.
func Plausible(t time.Time) bool {
	return t.IsZero() || t.Unix() >= 0 && t.Unix() <= lastSecond
}

// page checks the n of a List or a Claim.
func page(n int) error {
	if n < 0 || n > maxPage {
		return excessive("%d items in a request, of at most %d", n, maxPage)
	}
	return nil
}

func name(parts ...string) error {
	for _, s := range parts {
		if len(s) > maxName {
			return excessive("a name of %d bytes, of at most %d", len(s), maxName)
		}
	}
	return nil
}

func checkKey(k kv.Key) error { return name(string(k.Partition), k.Name) }

func checkTx(tx kv.Tx) error {
	for _, p := range tx.Puts {
		if !Plausible(p.Expires) {
			return excessive("an item that expires %d s after 1970", p.Expires.Unix())
		}
	}
	for _, t := range tx.Schedule {
		if !Plausible(t.Due) {
			return excessive("a task that is due %d s after 1970", t.Due.Unix())
		}
	}
	return nil
}

func checkClaim(c abi.Claim) error {
	if !Plausible(c.Now) || c.Lease < 0 || c.Lease > maxSpan {
		return excessive("a lease of %s from %d s after 1970", c.Lease, c.Now.Unix())
	}
	return errors.Join(name(string(c.Partition)), page(c.N))
}

func checkList(l abi.List) error {
	return errors.Join(checkKey(l.Prefix), name(l.After), page(l.N))
}

func checkSpend(s abi.Spend) error {
	if !Plausible(s.Now) || len(s.Charges) > maxCharges {
		return excessive("%d charges at %d s after 1970", len(s.Charges), s.Now.Unix())
	}
	for _, c := range s.Charges {
		if c.Cost < 0 || c.Cost > maxSpan || c.Burst < 0 || c.Burst > maxSpan {
			return excessive("a charge of %s with a burst of %s", c.Cost, c.Burst)
		}
		if err := name(c.Name); err != nil {
			return err
		}
	}
	return name(string(s.Partition))
}

func checkFetch(q host.FetchRequest) error {
	size := 0
	for k, v := range q.Header {
		size += len(k) + len(v)
	}
	tooLong := len(q.Method) > maxMethod || len(q.URL) > maxURL || len(q.Body) > maxBody
	if tooLong || len(q.Header) > maxFields || size > maxHeader {
		return excessive("a fetch with %d bytes of method, %d of URL, "+
			"%d header fields of %d bytes and %d bytes of body",
			len(q.Method), len(q.URL), len(q.Header), size, len(q.Body))
	}
	if len(q.For) > maxShort || q.Timeout < 0 || q.Timeout > maxSpan {
		return excessive("a fetch of %s for a method with a name of %d bytes", q.Timeout, len(q.For))
	}
	return nil
}

func checkSign(q abi.SignRequest) error {
	if len(q.Key) > maxShort || len(q.Algorithm) > maxMethod || len(q.Message) > maxMessage {
		return excessive("a signature over %d bytes with a key's name of %d bytes and an algorithm's of %d",
			len(q.Message), len(q.Key), len(q.Algorithm))
	}
	return nil
}

func checkVerify(q abi.VerifyRequest) error {
	if len(q.Algorithm) > maxShort || len(q.PublicKey) > maxPublic || len(q.Message) > maxMessage ||
		len(q.Signature) > maxSigned {
		return excessive("a verification of %d bytes with a key of %d, a signature of %d and an algorithm's "+
			"name of %d", len(q.Message), len(q.PublicKey), len(q.Signature), len(q.Algorithm))
	}
	return nil
}

func checkProof(q abi.ProofRequest) error {
	s := q.Statement
	tooLong := len(s.Circuit) > maxDocument || len(s.DocType) > maxDocument || len(s.Issuer) > maxPublic ||
		len(s.SessionTranscript) > host.MaxTranscript || len(q.Proof) > maxProof
	for _, e := range s.Elements {
		tooLong = tooLong || len(e.Identifier) > maxDocument || len(e.Value) > maxProof
	}
	if tooLong || len(s.Elements) > host.MaxProofElements || !Plausible(s.Time) {
		return excessive("a proof of %d bytes about %d elements", len(q.Proof), len(s.Elements))
	}
	return nil
}
