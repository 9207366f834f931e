package demo

import (
	"cmp"
	"crypto/subtle"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

type chrome struct {
	Title  string
	Active string // the navigation entry this page belongs to
}

type language struct{ Code, Name string }

var languages = []language{
	{"en", "English"}, {"de", "Deutsch"}, {"es", "Español"},
	{"fr", "Français"}, {"pt", "Português"}, {"it", "Italiano"},
}

type shopPage struct {
	chrome
	Languages []language
	Offers    []Offer
	Pretend   bool // the site simulates providers
	Verified  *verified
	Open      []openAttempt
}

type openAttempt struct {
	SessionID string
	ExpiresAt string
}

func (s *Site) shop(w http.ResponseWriter, r *http.Request) {
	b := s.remembered(r)
	page := shopPage{
		chrome:    chrome{Title: "Reserve No. 7", Active: "shop"},
		Languages: languages,
		Offers:    s.conf.Offers,
		Pretend:   s.pretend != nil,
		Verified:  b.verified,
	}
	for id, a := range b.attempts {
		page.Open = append(page.Open, openAttempt{id, a.ExpiresAt})
	}
	slices.SortFunc(page.Open,
		func(a, b openAttempt) int { return strings.Compare(b.ExpiresAt, a.ExpiresAt) })
	s.render(w, http.StatusOK, "shop", page)
}

// offer returns the offer of that integration. "" is the first one.
func (s *Site) offer(integration string) (Offer, bool) {
	for _, o := range s.conf.Offers {
		if o.IntegrationID == integration || integration == "" {
			return o, true
		}
	}
	return Offer{}, false
}

// start creates a session and sends the browser to it.
func (s *Site) start(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 16*1024)
	if err := r.ParseForm(); err != nil {
		s.problem(w, http.StatusBadRequest, problem{
			Title: "The form could not be read",
			Text:  "Go back and try again.",
		})
		return
	}
	offer, ok := s.offer(r.PostForm.Get("integration"))
	if !ok {
		s.problem(w, http.StatusBadRequest, problem{
			Title: "The shop does not offer that",
			Text:  "Go back to the shop and choose how your age should be checked.",
		})
		return
	}
	req := startRequest{
		IntegrationID: offer.IntegrationID,
		CallbackURL:   s.conf.DemoURL + "/callback",
		State:         s.random(32),
		Language:      r.PostForm.Get("language"),
	}
	if user := r.PostForm.Get("external_user_id"); user != "" {
		req.ExternalUserID = &user
	}
	session, apiErr := s.api.start(r.Context(), req)
	if apiErr != nil {
		s.apiProblem(w, "The verification could not be started", apiErr)
		return
	}
	s.remember(w, r, func(b *browser) {
		b.attempts[session.SessionID] = attempt{
			State:          req.State,
			IntegrationID:  req.IntegrationID,
			StartedAt:      s.conf.Now(),
			ExpiresAt:      session.ExpiresAt,
			IdempotencyKey: s.random(16),
		}
	})
	// http.Redirect would change the address. It is opaque and goes out as it came in.
	w.Header().Set("Location", session.RedirectURL)
	w.WriteHeader(http.StatusSeeOther)
}

// callback handles the browser's return. It accepts the result if all of this is true:
//
//   - the shop sent this browser away for this session, with this state
//   - the service consumed the result token for the shop and reports valid and verified
//   - the facts are of the same session, and of its integration
//
// Another page shows the accepted result, so that a reload makes no further call.
func (s *Site) callback(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	id, state, token := q["session_id"], q["state"], q["result_token"]
	if len(id) != 1 || len(token) != 1 || len(state) > 1 {
		s.problem(w, http.StatusBadRequest, problem{
			Title: "This is not a return from a verification",
			Text: "The address must carry session_id, state and result_token once each. Start " +
				"again from the shop.",
		})
		return
	}
	b := s.remembered(r)
	if b.verified != nil && b.verified.Facts.SessionID == id[0] {
		seeOther(w, "/result")
		return
	}
	a, known := b.attempts[id[0]]
	if !known || len(state) != 1 || subtle.ConstantTimeCompare([]byte(state[0]), []byte(a.State)) != 1 {
		p := problem{
			Title: "This verification was not started here",
			Text: "The state in the address does not belong to this browser, so the result was " +
				"ignored. This happens if the link was opened in another browser, " +
				"or if another person created it. Start again from the shop.",
			Code: "STATE_MISMATCH",
		}
		if !known {
			p.Command = s.validateCommand()
		}
		s.problem(w, http.StatusBadRequest, p)
		return
	}
	f, apiErr := s.api.validate(r.Context(), token[0], a.IdempotencyKey)
	if apiErr != nil {
		// The attempt is over, unless a reload can still get the response.
		title := "Not validated yet: reload this page"
		if !apiErr.temporary() {
			title = "The result could not be validated"
			s.remember(w, r, func(b *browser) { delete(b.attempts, id[0]) })
		}
		s.apiProblem(w, title, apiErr)
		return
	}
	if !f.Valid || !f.Verified || f.SessionID != id[0] || f.IntegrationID != a.IntegrationID {
		s.remember(w, r, func(b *browser) { delete(b.attempts, id[0]) })
		s.problem(w, http.StatusBadGateway, problem{
			Title: "The result does not belong to this verification",
			Text: "The service responded, but for another session or integration, " +
				"or without a verified age. Nothing was granted.",
		})
		return
	}
	s.remember(w, r, func(b *browser) {
		delete(b.attempts, id[0])
		b.verified = &verified{Facts: f, StartedAt: a.StartedAt}
	})
	seeOther(w, "/result")
}

// validateCommand returns the call that exchanges a result token, for developers who started a session by
// curl. It has no token, because anyone can write the address of a callback.
func (s *Site) validateCommand() string {
	return fmt.Sprintf(`curl %s/api/v1/verify/validate -H 'Content-Type: application/json' \
  -H "Authorization: Bearer %s" \
  -d '{"result_token":"RESULT_TOKEN"}'`, s.conf.BaseURL, cmp.Or(s.conf.KeyInShell, "$SECRET_KEY"))
}

type resultPage struct {
	chrome
	Facts     facts
	Way       string // the visitor's choice
	StartedAt string
}

func (s *Site) result(w http.ResponseWriter, r *http.Request) {
	v := s.remembered(r).verified
	if v == nil {
		seeOther(w, "/")
		return
	}
	chosen, _ := s.offer(v.Facts.IntegrationID)
	s.render(w, http.StatusOK, "result", resultPage{
		chrome:    chrome{Title: "Age verified", Active: "shop"},
		Facts:     v.Facts,
		Way:       chosen.Title,
		StartedAt: v.StartedAt.UTC().Format(timeLayout),
	})
}

// forget deletes everything about the browser, so that a person can try another outcome.
func (s *Site) forget(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie(cookieName); err == nil {
		s.browsers.mu.Lock()
		delete(s.browsers.byID, c.Value)
		s.browsers.mu.Unlock()
	}
	http.SetCookie(w, &http.Cookie{
		Name:     cookieName,
		Path:     "/",
		MaxAge:   -1,
		HttpOnly: true,
		SameSite: http.SameSiteLaxMode,
	})
	seeOther(w, "/")
}

type sessionPage struct {
	chrome
	Session  sessionView
	Verified string
	AskedAt  string
}

// session shows the service's data of one session. It is the recovery view.
func (s *Site) session(w http.ResponseWriter, r *http.Request) {
	view, apiErr := s.api.reconcile(r.Context(), r.PathValue("id"))
	if apiErr != nil {
		s.apiProblem(w, "The session could not be looked up", apiErr)
		return
	}
	page := sessionPage{
		chrome:   chrome{Title: "Session", Active: "inbox"},
		Session:  view,
		Verified: "not known yet",
		AskedAt:  s.conf.Now().UTC().Format(timeLayout),
	}
	if view.Verified != nil {
		page.Verified = map[bool]string{true: "yes", false: "no"}[*view.Verified]
	}
	s.render(w, http.StatusOK, "session", page)
}

// timeLayout is the form of times in the API. This site uses it too.
const timeLayout = "2006-01-02T15:04:05.000Z"

// problem is a page with an error and its fix.
type problem struct {
	chrome
	Title     string
	Text      string
	Code      string
	RequestID string
	SessionID string
	Details   []string
	Command   string // the call that a developer makes next
}

func (s *Site) problem(w http.ResponseWriter, status int, p problem) {
	p.chrome = chrome{Title: p.Title}
	s.render(w, status, "problem", p)
}

// advice explains codes to a visitor of the shop. For other codes, the shop shows the API's own message.
var advice = map[string]string{
	"ALREADY_USED": "This result was already used, and a result works once. Nothing was granted. " +
		"Start again from the shop.",
	"EXPIRED": "More than five minutes passed between the verification and its validation. " +
		"Nothing was granted. Start again from the shop.",
	"INVALID_TOKEN": "The result is invalid: it was altered, " +
		"or it was issued to another shop. Nothing was granted.",
	"UNAUTHORIZED":          "The service does not accept this shop's secret key.",
	"INTEGRATION_NOT_READY": "The signed webhook test of this integration has not reported Ready yet.",
	"PROVIDER_UNAVAILABLE": "The verification provider did not respond, " +
		"so the session failed immediately. Try again in a moment.",
	"UNAVAILABLE": "The service is unavailable, so nothing was granted. Try again in a moment.",
	"NOT_FOUND": "The service has no such session or integration: " +
		"it belongs to another publisher, or has expired, or the id is mistyped.",
}

func (s *Site) apiProblem(w http.ResponseWriter, title string, e *apiError) {
	s.conf.Log.Warn("demo: api call failed", "status", e.Status, "code", e.Code, "request_id", e.RequestID)
	p := problem{
		Title:     title,
		Text:      cmp.Or(advice[e.Code], e.Message),
		Code:      e.Code,
		RequestID: e.RequestID,
		SessionID: e.SessionID,
	}
	for _, d := range e.Details {
		p.Details = append(p.Details, fmt.Sprintf("%s: %s", d.Field, d.Message))
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(int(e.RetryAfter/time.Second)))
		p.Details = append(p.Details, fmt.Sprintf("Try again in %s.", e.RetryAfter))
	}
	// If the API rejects the shop, the error is the shop's, not the visitor's.
	status := e.Status
	if status < 400 || status >= 500 || status == http.StatusUnauthorized || status == http.StatusForbidden {
		status = http.StatusBadGateway
	}
	s.problem(w, status, p)
}

func seeOther(w http.ResponseWriter, path string) {
	w.Header().Set("Location", path)
	w.WriteHeader(http.StatusSeeOther)
}
