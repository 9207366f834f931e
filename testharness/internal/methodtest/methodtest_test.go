package methodtest_test

import (
	"testing"

	"github.com/verge-id/verge/testharness/internal/methodtest"
	"github.com/verge-id/verge/testharness/long"
)

// The kinds of this release, natively on a store in memory. Package conformance runs them on every store and
// engine.
func TestMethods(t *testing.T) {
	subjects := []methodtest.Subject{methodtest.Courier}
	if long.Run(t, "TestMethods") {
		subjects = append(subjects, methodtest.Sandbox, methodtest.OIDC, methodtest.Estimator,
			methodtest.Wallet)
	}
	for _, s := range subjects {
		t.Run(s.Kind, func(t *testing.T) {
			t.Parallel()
			methodtest.Run(t, s, methodtest.Engine{})
		})
	}
}

// The requests to wallets are signed, and their responses encrypted.
func TestSignedRequests(t *testing.T) {
	long.Skip(t, "TestSignedRequests")
	methodtest.Run(t, methodtest.SignedWallet, methodtest.Engine{})
}
