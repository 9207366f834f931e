package demo

import (
	"net/http"
	"net/url"
)

// ConsolePath redirects to the service's console and signs in.
const ConsolePath = "/console"

// console creates a sign-in link and redirects the browser to it. A link works once and for a short time.
// This address works while the site runs.
//
// The host is checked, because another site with a name that resolves to this machine could otherwise create
// and read links.
func (s *Site) console(w http.ResponseWriter, r *http.Request) {
	at, err := url.Parse(s.conf.DemoURL)
	if s.conf.SignIn == nil || err != nil || r.Host != at.Host {
		s.problem(w, http.StatusNotFound, problem{
			Title: "Page not found",
			Text:  "Sign in to the console with the operator token.",
		})
		return
	}
	link, err := s.conf.SignIn(r.Context())
	if err != nil {
		s.conf.Log.Error("demo: no sign-in link", "error", err)
		s.problem(w, http.StatusBadGateway, problem{
			Title: "The sign-in link could not be created",
			Text:  "The log has the reason. You can sign in to the console with the operator token.",
		})
		return
	}
	http.Redirect(w, r, link, http.StatusSeeOther)
}
