package wasmhost_test

import (
	"net/netip"
	"testing"

	"github.com/verge-id/verge/core/web"
)

// contract 30: a repeated call of a long poll is marked for the guest. A module of an earlier release,
// which may have become active during the wait, does not know the entry and gets it as a normal request.
func TestHandle_Again(t *testing.T) {
	req := &web.Request{Method: "GET", Path: "/", Client: netip.MustParseAddr("192.0.2.1"), Again: true}
	old := start(t, config(t, badGuest))
	if r := old.Handle(t.Context(), req); r.Status != 200 || string(r.Body) != "well" {
		t.Errorf("a module of an earlier release returns %d %q", r.Status, r.Body)
	}
	good := start(t, config(t, goodGuest))
	req.Path = "/verify"
	if r := good.Handle(t.Context(), req); r.Header.Has("Ratelimit") {
		t.Errorf("contract 30: it is counted again: %v", r.Header)
	}
	req.Again = false
	if r := good.Handle(t.Context(), req); !r.Header.Has("Ratelimit") {
		t.Errorf("contract 30: it is not counted: %v", r.Header)
	}
}
