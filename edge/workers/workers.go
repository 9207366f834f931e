// Package workers is Verge as a Cloudflare Worker; README.md explains the deployment. The Worker has no Go
// code; this package has tests that run it on a real workerd.
package workers

import "embed"

// src/routes.js is made of the core's tables of routes, and of other paths that
// Go code and the Worker must agree on.
//
//go:generate go test -run ^TestRoutes_SameAsCore$ . -update

// Source is the Worker's modules, in src, and the tests' entry, in test.
// src/verge.wasm is not among them: it is built.
//
//go:embed src/*.js test/*.js
var Source embed.FS
