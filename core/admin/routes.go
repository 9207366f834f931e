package admin

import (
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/operate"
)

// Patterns of the routes that are not in package operate.
const (
	indexPath = "/" // GET, without a token

	openAPIPath = operate.Prefix + "openapi.yaml" // GET, without a token
)

var get = []string{"GET", "HEAD"}

// Routes returns the routes of operators. Package web describes how to add one. The first two need no token.
func (a *Admin) Routes() router.Table {
	table := router.Table{
		{Methods: get, Pattern: indexPath, Label: label, Only: isGet, Handle: router.Page(index)},
		{Methods: get, Pattern: openAPIPath, Label: label, Handle: router.Page(document)},
	}
	for _, e := range operate.Endpoints() {
		method, path, maxBody := e.Route()
		methods := []string{method}
		if method == "GET" {
			methods = get
		}
		table = append(table, router.Route{Methods: methods, Pattern: path, Label: label, MaxBody: maxBody,
			Handle: a.operator(e)})
	}
	return append(table, router.Route{Pattern: "{...}", Label: label})
}
