package effect

import (
	"errors"
	"fmt"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/wasm/abi"
)

// ErrExcessive says that an effect asks for more than the core ever does,
// whatever it is asked itself: the guest is not the core, or broken.
var ErrExcessive = errors.New("effect: asks for more than is granted")

// What an effect may ask for at most. A Tx has limits of its own, which every
// store checks.
const (
	maxPage    = 1024                 // items of a List, tasks of a Claim
	maxName    = 16 << 10             // bytes of a name that is looked for: a request's whole URL may be in it
	maxCharges = kv.MaxTx             // of a Spend
	maxURL     = 8 << 10              // bytes of a Fetch's
	maxMethod  = 16                   // likewise
	maxFields  = 64                   // header fields of a Fetch
	maxHeader  = 16 << 10             // bytes of them together
	maxBody    = 2 << 20              // bytes of a Fetch's body
	maxSpan    = 366 * 24 * time.Hour // of a lease, a counter's step or its burst
	lastSecond = 253402300799         // of the year 9999: later times have no form in RFC 3339
)

func excessive(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrExcessive, fmt.Sprintf(format, args...))
}

// Plausible reports whether a time is none at all or lies in 1970 to 9999.
// Others overflow what stores and schedules count in.
func Plausible(t time.Time) bool {
	return t.IsZero() || t.Unix() >= 0 && t.Unix() <= lastSecond
}

// page is the n of a List or a Claim.
func page(n int) error {
	if n < 0 || n > maxPage {
		return excessive("%d items at once, of at most %d", n, maxPage)
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
			return excessive("an item that expires in %d s of our era", p.Expires.Unix())
		}
	}
	for _, t := range tx.Schedule {
		if !Plausible(t.Due) {
			return excessive("a task that is due in %d s of our era", t.Due.Unix())
		}
	}
	return nil
}

func checkClaim(c abi.Claim) error {
	if !Plausible(c.Now) || c.Lease < 0 || c.Lease > maxSpan {
		return excessive("a lease of %s from %d s of our era", c.Lease, c.Now.Unix())
	}
	return errors.Join(name(string(c.Partition)), page(c.N))
}

func checkList(l abi.List) error {
	return errors.Join(checkKey(l.Prefix), name(l.After), page(l.N))
}

func checkSpend(s abi.Spend) error {
	if !Plausible(s.Now) || len(s.Charges) > maxCharges {
		return excessive("%d charges at %d s of our era", len(s.Charges), s.Now.Unix())
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
	if len(q.Method) > maxMethod || len(q.URL) > maxURL || len(q.Header) > maxFields || size > maxHeader || len(q.Body) > maxBody {
		return excessive("a fetch with %d bytes of method, %d of URL, %d header fields of %d bytes and %d bytes of body",
			len(q.Method), len(q.URL), len(q.Header), size, len(q.Body))
	}
	return nil
}
