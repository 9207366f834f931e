package demo

import (
	"net/http"
	"net/url"
)

// ConsolePath leads to the service's console, signed in.
const ConsolePath = "/console"

// console makes a sign-in link and sends the browser there. A link works once and not for long. This address
// works for as long as the site does.
//
// The host is checked, because with its own name that resolves to this machine, another site could make links
// as well, and read them.
func (s *Site) console(w http.ResponseWriter, r *http.Request) {
	at, err := url.Parse(s.conf.DemoURL)
	if s.conf.SignIn == nil || err != nil || r.Host != at.Host {
		s.problem(w, http.StatusNotFound, problem{
			Title: "There is no such page",
			Text:  "Sign in to the console with the operator token.",
		})
		return
	}
	link, err := s.conf.SignIn(r.Context())
	if err != nil {
		s.conf.Log.Error("demo: no sign-in link", "error", err)
		s.problem(w, http.StatusBadGateway, problem{
			Title: "The sign-in link could not be made",
			Text:  "The log has the reason. You can sign in to the console with the operator token.",
		})
		return
	}
	http.Redirect(w, r, link, http.StatusSeeOther)
}
