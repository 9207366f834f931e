// Package kinds lists the kinds of methods of this release. The native service and the WASM guest take them
// from here. A new kind gets a line in the list.
package kinds

import (
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/estimator"
	"github.com/verge-id/verge/core/method/oidc"
	"github.com/verge-id/verge/core/method/openid4vp"
	"github.com/verge-id/verge/core/method/sandbox"
)

// All is every kind, in the order in which documents name them.
var All = []method.Kind{
	sandbox.Kind,
	oidc.Kind,
	estimator.Kind,
	openid4vp.Kind,
}
