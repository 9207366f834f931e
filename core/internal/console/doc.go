// Package console is what package operate can do, as pages for people (contract 43 to 45). It decides
// nothing: Operations carries out every operation and says who may, and Access says who is signed in.
//
// GET shows and POST acts. A POST is answered by a 303 to a page that says what happened, or by the page with
// the form again and what is wrong with it. Every form carries a token that is bound to the session and the
// action, and a POST that a browser sends for another site is refused.
//
// Another publisher's things are not there: their pages are 404 for a member. What a role may not do is not
// shown, and a POST of it is 403.
//
//	console.go     the table of pages, and how a request finds its page
//	ports.go       what the console needs: Operations and Access
//	visit.go       one request of one person
//	response.go    how pages are sent, and pages instead of errors
//	note.go        what a form did, kept for the page after it
//	signin.go      sign-in, invitations, links, sign-out
//	publisher.go   publishers, the overview
//	integration.go integrations and their webhooks
//	testconsole.go the test console
//	lists.go       keys, deliveries, sessions, usage, members, audit, operator tokens, methods
package console
