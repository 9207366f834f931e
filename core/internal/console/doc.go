// Package console serves the operations of package operate as pages (contract 43 to 45). Package operate
// carries out every operation and checks the rights. [Access] finds the session of a request.
//
// GET shows a page and POST changes something. The response to a POST is a 303 to a page with the result, or
// the page with the form again and its errors. Every form has a token that is bound to the session and the
// action. A POST that a browser sends for another site is rejected.
//
// A member's request for another publisher's page returns 404. A page has no forms that the role forbids, and
// a POST of such a form returns 403.
//
//	console.go     the table of pages, and how a request finds its page
//	ports.go       Access: sessions, sign-in and passkeys
//	visit.go       one request of one person
//	response.go    how pages are sent, and pages instead of errors
//	note.go       the result of a form, stored for the page after it
//	signin.go      sign-in, invitations, links, sign-out
//	publisher.go   publishers, the overview
//	integration.go integrations, their webhooks and OpenID clients
//	testconsole.go the test console
//	lists.go       keys, deliveries, sessions, usage, members, audit, operator tokens, methods
package console
