package wasmhost_test

import (
	"net/netip"
	"testing"

	"github.com/verge-id/verge/core/web"
)

// contract 30: a request that the host has held goes to the guest as one. A module of an earlier release,
// which may have taken over meanwhile, does not know that and gets it as any other.
func TestARequestIsAskedAgain(t *testing.T) {
	req := &web.Request{Method: "GET", Path: "/", Client: netip.MustParseAddr("192.0.2.1"), Again: true}
	old := start(t, config(t, badGuest))
	if r := old.Handle(t.Context(), req); r.Status != 200 || string(r.Body) != "well" {
		t.Errorf("a module of an earlier release answers %d %q", r.Status, r.Body)
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
