package router

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
)

func TestAsError(t *testing.T) {
	e := AsError(errors.New("a cause"))
	if e.Code != web.Internal || strings.Contains(e.Message, "cause") {
		t.Errorf("contract 5: %v", e)
	}
	e = AsError(fmt.Errorf("x: %w: %w", &web.Error{Code: web.NotFound}, kv.ErrUnavailable))
	if e.Code != web.NotFound {
		t.Errorf("contract 5: an error for the caller became %v", e)
	}
}
