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

// Routes returns the routes of operators. Package web describes how to add one. The first two need no token.
func (a *Admin) Routes() web.Table {
	table := web.Table{
		{Methods: get, Pattern: indexPath, Label: label, Only: isGet, Handle: web.Page(index)},
		{Methods: get, Pattern: openAPIPath, Label: label, Handle: web.Page(document)},
	}
	for _, e := range operate.Endpoints() {
		method, path, maxBody := e.Route()
		methods := []string{method}
		if method == "GET" {
			methods = get
		}
		table = append(table, web.Route{Methods: methods, Pattern: path, Label: label, MaxBody: maxBody,
			Handle: a.operator(e)})
	}
	return append(table, web.Route{Pattern: "{...}", Label: label})
}
