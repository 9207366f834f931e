package testharness

import (
	"crypto/rand"
	"maps"
	"slices"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/keyset"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/edge/signing"
	"github.com/verge-id/verge/testharness/estimatortest"
	"github.com/verge-id/verge/testharness/oidctest"
)

// Credentials of the service at Options.Providers and Options.Estimators.
const (
	clientID     = "verge"
	clientSecret = "secret-of-the-harness"
)

// startMethods starts the other sides of the methods in Options, on the harness's clock.
func (h *Harness) startMethods() {
	h.t.Helper()
	h.providers, h.estimators = map[string]*oidctest.Server{}, map[string]*estimatortest.Estimator{}
	h.methods = slices.Clone(h.opts.Methods)
	for _, name := range h.opts.Providers {
		p := oidctest.Start(h.t, oidctest.Config{Now: h.Now,
			Clients: []oidctest.Client{{ID: clientID, Secret: clientSecret}}})
		var proofs []any
		for _, age := range []int{15, 16, 18, 21} {
			proofs = append(proofs, oidctest.AgeProof(age))
		}
		h.methods = append(h.methods, method.Config{Name: name, Kind: "oidc",
			Settings: h.marshal(map[string]any{"issuer": p.URL, "client_id": clientID, "proof": proofs}),
			Secrets:  map[string]string{"client_secret": clientSecret}})
		h.providers[name] = p
	}
	for _, name := range h.opts.Estimators {
		e, base := estimatortest.Serve(h.t, estimatortest.Config{Now: h.Now, Token: clientSecret})
		h.methods = append(h.methods, method.Config{Name: name, Kind: "estimator",
			Settings: h.marshal(map[string]any{"profile": "plain", "url": base + estimatortest.PlainPath}),
			Secrets:  map[string]string{"token": clientSecret}})
		h.estimators[name] = e
	}
}

// Provider is the OpenID provider of a method of Options.Providers. Its answers prove that a person is 40,
// until the test has it say something else.
func (h *Harness) Provider(name string) *oidctest.Server {
	h.t.Helper()
	return named(h, h.providers, "Providers", name)
}

// Estimator is the age estimator of a method of Options.Estimators. It sees a live person of 30 in each
// picture, until the test has it say something else.
func (h *Harness) Estimator(name string) *estimatortest.Estimator {
	h.t.Helper()
	return named(h, h.estimators, "Estimators", name)
}

func named[T any](h *Harness, all map[string]T, option, name string) T {
	h.t.Helper()
	one, ok := all[name]
	if !ok {
		h.t.Fatalf("testharness: Options.%s has no %q, but %q", option, name, slices.Sorted(maps.Keys(all)))
	}
	return one
}

// Offer has an integration offer these methods, in this order, and nothing else. An estimator proves L1
// alone.
func (h *Harness) Offer(i *Integration, methods ...string) {
	h.t.Helper()
	h.Reconfigure(i, "", func(c *integration.Integration) {
		c.Method, c.Methods = methods[0], nil
		if len(methods) > 1 {
			c.Methods = methods
		}
	})
}

// signer has the private keys of Options.
func (h *Harness) signer() *signing.Signer {
	h.t.Helper()
	files := map[string]string{}
	for name := range h.opts.Keys {
		files[name] = name
	}
	s, err := signing.Open(files, func(name string) ([]byte, error) { return h.opts.Keys[name], nil }, "")
	h.must(err)
	return s
}

// RotateKeyring adds a new key to the ring, like `verge keyring rotate`. When it returns, the new key is
// active. Data of the old key can still be opened.
func (h *Harness) RotateKeyring() {
	h.t.Helper()
	ring := h.Keyring
	ring.Keys = slices.Clone(ring.Keys)
	h.must(ring.Rotate(rand.Reader, h.Now(), 0))
	h.ring.Lock()
	h.Keyring = ring
	h.ring.Unlock()
	if h.remote != nil {
		h.remote.SetKeyring(ring)
	}
	h.Settle()
	h.Advance(keyset.Settle) // after this, the new key is active
}

// keyringFile is edge.Config.KeyringFile.
func (h *Harness) keyringFile() ([]byte, error) {
	h.ring.Lock()
	defer h.ring.Unlock()
	return h.Keyring.Marshal()
}
