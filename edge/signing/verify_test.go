package signing

import (
	"context"
	"errors"
	"testing"

	"github.com/verge-id/verge/testharness/verifytest"
)

func TestVerify(t *testing.T) { verifytest.Run(t, Verify) }

func TestVerify_RequestHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if ok, err := Verify(ctx, "ES256", nil, nil, nil); ok || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", ok, err)
	}
}
