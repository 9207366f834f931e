package estimator

import (
	"strconv"

	"github.com/verge-id/verge/core/internal/verdict"
	"github.com/verge-id/verge/core/method"
)

var _ method.Fingerprinter = (*estimator)(nil)

// Fingerprint implements method.Fingerprinter. A verdict depends on who has estimated, and on how certain
// that had to be. The floor rejects, and approves no user.
func (e *estimator) Fingerprint() string {
	s := e.settings
	return verdict.Digest(s.url, s.sdkID, strconv.FormatFloat(s.limits.deviation, 'g', -1, 64))
}
