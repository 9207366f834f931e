package methodtest_test

import (
	"testing"

	"github.com/verge-id/verge/testharness/internal/methodtest"
)

// The kinds of this release, natively on a store in memory. Package conformance runs them on every store and
// engine.
func TestMethods(t *testing.T) {
	for _, s := range []methodtest.Subject{methodtest.Sandbox, methodtest.OIDC, methodtest.Estimator,
		methodtest.Courier, methodtest.Wallet} {
		t.Run(s.Kind, func(t *testing.T) {
			t.Parallel()
			methodtest.Run(t, s, methodtest.Engine{})
		})
	}
}

// The requests to wallets are signed, and their responses encrypted.
func TestSignedRequests(t *testing.T) {
	methodtest.Run(t, methodtest.SignedWallet, methodtest.Engine{})
}
