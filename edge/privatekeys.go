package edge

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/verge-id/verge/core/host"
)

// Intervals of the checks of private keys outside of this process.
const (
	keysEach  = time.Minute
	keysAgain = 5 * time.Second  // while one fails, and the minimum after a failed signature
	keysTime  = 30 * time.Second // the maximum duration of one check
)

// sign returns host.Host's Sign. A failed signature causes an early check.
func (s *Service) sign() func(ctx context.Context, key, algorithm string, message []byte) ([]byte, error) {
	sign := s.config.Sign
	if sign == nil || s.config.CheckKeys == nil {
		return sign
	}
	return func(ctx context.Context, key, algorithm string, message []byte) ([]byte, error) {
		signature, err := sign(ctx, key, algorithm, message)
		if err != nil && !errors.Is(err, host.ErrNoSuchKey) {
			select {
			case s.keyFailed <- struct{}{}:
			default:
			}
		}
		return signature, err
	}
}

// checkKeys checks the private keys outside of this process until ctx is done.
func (s *Service) checkKeys(ctx context.Context) {
	if s.config.CheckKeys == nil {
		return
	}
	reasons := map[string]string{}
	for s.checkKeysOnce(ctx, reasons); ; s.checkKeysOnce(ctx, reasons) {
		next := keysEach
		for _, reason := range reasons {
			if reason != "" {
				next = keysAgain
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(keysAgain):
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(next - keysAgain):
		case <-s.keyFailed:
		}
	}
}

// checkKeysOnce sets the metrics of the keys, and logs changes. reasons has the last result of each key: why
// it fails, or "".
func (s *Service) checkKeysOnce(ctx context.Context, reasons map[string]string) {
	checking, cancel := context.WithTimeout(ctx, keysTime)
	defer cancel()
	found := s.config.CheckKeys(checking)
	if ctx.Err() != nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		reason := ""
		if err := found[name]; err != nil {
			reason = err.Error()
		}
		s.config.Server.Metrics.PrivateKey(name, reason != "")
		switch before := reasons[name]; {
		case (reason == "") == (before == ""):
		case reason != "":
			s.config.Log.Error("private key failing", "key", name, "error", reason)
		default:
			s.config.Log.Info("private key signs again", "key", name)
		}
		reasons[name] = reason
	}
}
