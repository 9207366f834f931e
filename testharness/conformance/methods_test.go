package conformance_test

import (
	"slices"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/internal/methodtest"
)

// Every kind of method passes the suite of package methodtest on every store and engine (contract 41).

func TestMethodSandbox(t *testing.T) { methodtest.Run(t, methodtest.Sandbox, onThisEngine()) }

func TestMethodOIDC(t *testing.T) {
	t.Parallel() // it waits for a deadline
	methodtest.Run(t, methodtest.OIDC, onThisEngine())
}

func TestMethodEstimator(t *testing.T) {
	t.Parallel() // it waits for a deadline
	methodtest.Run(t, methodtest.Estimator, onThisEngine())
}

func TestMethodOpenID4VP(t *testing.T) { methodtest.Run(t, methodtest.Wallet, onThisEngine()) }

func TestMethodOpenID4VPSigned(t *testing.T) {
	methodtest.Run(t, methodtest.SignedWallet, onThisEngine())
}

// The kind for tests whose response does not come from the browser. A guest is built with it.
func TestMethod_Courier(t *testing.T) {
	if inWorker {
		t.Skip("SKIP: the Worker of the tests has the module of this release, which has no such kind")
	}
	methodtest.Run(t, methodtest.Courier, onThisEngine())
}

func onThisEngine() methodtest.Engine {
	return methodtest.Engine{
		New: func(t testing.TB, o *testharness.Options) *testharness.Harness {
			t.Helper()
			return newHarness(t, o)
		},
		Store: func(t testing.TB) func(func() time.Time) kv.KV {
			t.Helper()
			return engine(t)
		},
		Takes: takesCase,
	}
}

// takesCase reports whether this run has that case of every kind. In the short run the engines of TestEngines
// take turns, and the run that starts them has all cases.
func takesCase(n int) bool {
	return engineTurn == "" || n == 0 || n%len(others()) == slices.Index(others(), engineTurn)
}
