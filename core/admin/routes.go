package admin

import (
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/web"
)

// Patterns of the routes that are not in package operate.
const (
	indexPath = "/" // GET, without a token

	openAPIPath = operate.Prefix + "openapi.yaml" // GET, without a token
)

var get = []string{"GET", "HEAD"}

// routes has every route of operators. Handle answers the first two itself, since they need no token.
var routes = func() web.Table[handler] {
	table := web.Table[handler]{
		{Methods: get, Pattern: indexPath, Label: label, Only: isGet},
		{Methods: get, Pattern: openAPIPath, Label: label},
	}
	for _, e := range operate.Endpoints() {
		method, path, maxBody := e.Route()
		methods := []string{method}
		if method == "GET" {
			methods = get
		}
		table = append(table, web.Route[handler]{Methods: methods, Pattern: path, Label: label,
			MaxBody: maxBody, Handle: e.Serve})
	}
	return append(table, web.Route[handler]{Pattern: "{...}", Label: label})
}()
