// Package kinds lists the kinds of methods of this release. The native service and the WASM guest take them
// from here. A new kind gets a line in the list.
package kinds

import (
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/estimator"
	"github.com/verge-id/verge/core/method/oidc"
	"github.com/verge-id/verge/core/method/sandbox"
)

// All is every kind, in the order in which documents name them.
var All = []method.Kind{
	sandbox.Kind,
	oidc.Kind,
	estimator.Kind,
}

// ProbeOf returns how the other side of a method of that kind is asked what it offers. Nil: it cannot be asked.
// This is no member of method.Kind, so that guests, which never ask, do not carry the code.
func ProbeOf(kind string) method.Probe {
	switch kind {
	case oidc.Kind.Name:
		return oidc.Probe
	case estimator.Kind.Name:
		return estimator.Probe
	}
	return nil
}
