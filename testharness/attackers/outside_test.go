package attackers

import (
	"crypto/rand"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/testharness"
)

var network = foothold{"Anyone on the network", []row{
	{
		says: "Forged tokens, session ids and keys are rejected, and no response tells the reason.",
		tries: "result tokens: altered, cut, forged, of another kind, sealed by their own ring under " +
			"the same key id",
		gets: "400 `INVALID_TOKEN` for each in the same words; the genuine token stays valid",
		do: func(t *testing.T) {
			s := newService(t, nil)
			started := s.Start(nil)
			real := s.Approve(started).ResultToken
			claims, err := opened(s.ring(s.Keyring, hostName), real)
			must(t, err)
			tokens := []string{"svc_rt_", "svc_rt_" + rand.Text(), real[:len(real)-1], real + "A",
				flowOf(t, started.RedirectURL),
				"svc_rt_" + strings.TrimPrefix(flowOf(t, started.RedirectURL), "svc_ft_"),
				s.result(stranger(s), claims)}
			for i := len("svc_rt_"); i < len(real); i += 7 {
				other := "A"
				if real[i] == 'A' {
					other = "B"
				}
				tokens = append(tokens, real[:i]+other+real[i+1:])
			}
			message := ""
			for _, text := range tokens {
				r := s.Validate(text)
				want(t, r, 400, "INVALID_TOKEN")
				if message == "" {
					message = r.Text("message")
				}
				if r.Text("message") != message {
					t.Errorf("%s says %q, others %q", text, r.Text("message"), message)
				}
			}
			want(t, s.Validate(real), 200, "")
		},
	},
	{
		tries: "session ids: altered, and created by their own ring under the same key id",
		gets:  "404, as for a session that does not exist",
		do: func(t *testing.T) {
			s := newService(t, nil)
			id := s.Start(nil).SessionID
			_, forged := s.forge(stranger(s), s.Now())
			altered := id[:40] + string("AB"[min(1, strings.Count(id[40:41], "A"))]) + id[41:]
			for _, text := range []string{forged, altered} {
				want(t, s.Reconcile(text), 404, "NOT_FOUND")
			}
		},
	},
	{
		tries: "keys that are well formed and were never created",
		gets:  "401 for each",
		do: func(t *testing.T) {
			s := newService(t, nil)
			for range 20 {
				guess, err := integration.GenerateKey(integration.SecretPrefix, rand.Reader)
				must(t, err)
				want(t, s.startAs(bearer(guess), nil), 401, "UNAUTHORIZED")
			}
		},
	},
	{
		says: "Tokens and keys of another deployment are rejected, even if it has the same key " +
			"ring.",
		tries: "a session id and a result token that the same keys made for another host",
		gets:  "404, and 400 `INVALID_TOKEN`",
		do: func(t *testing.T) {
			s := newService(t, nil)
			staging := s.ring(s.Keyring, "staging.example")
			_, text := s.forge(staging, s.Now())
			want(t, s.Reconcile(text), 404, "NOT_FOUND")
			want(t, s.Validate(s.result(staging, resultClaims{Session: s.Start(nil).SessionID,
				Completed: s.Now()})),
				400, "INVALID_TOKEN")
		},
	},
	{
		says:  "Guesses are counted by address.",
		tries: "secret keys, over and over; preflights and pages, over and over",
		gets:  "429 once the address is at its limit, without further store calls",
		proof: []string{"core/internal/api:TestGuessingCountsAgainstTheAddress",
			"core/internal/api:TestLimit_DenialHasNoEffect",
			"core/internal/api:TestPreflightsAndPagesAreLimitedByAddress"},
	},
	{
		says: "After twenty wrong operator tokens in a minute, no token of the address is checked " +
			"until the minute ends, and the audit names the address.",
		tries: "operator tokens, over and over, at the operators' API and at the console, and then the " +
			"right one",
		gets: "401 twenty times in all, then 429 with `Retry-After`, for the right one, too, until the " +
			"minute ends; the audit has one entry",
		do: func(t *testing.T) {
			s := newService(t, nil)
			s.Advance(s.Now().Truncate(time.Minute).Add(time.Minute).Sub(s.Now()))
			right := s.OperatorToken
			s.OperatorToken = "op_" + rand.Text()
			guess := "do=sign-in&token=" + s.OperatorToken
			for range 10 {
				want(t, s.Admin("GET", "/admin/v1/keys", nil), 401, "UNAUTHORIZED")
				wantPage(t, "the console", s.console("", "/sign-in", guess), 401)
			}
			for _, token := range []string{s.OperatorToken, right} {
				s.OperatorToken = token
				form := "do=sign-in&token=" + token
				wantPage(t, "the console after twenty", s.console("", "/sign-in", form), 429)
				r := s.Admin("GET", "/admin/v1/keys", nil)
				want(t, r, 429, "RATE_LIMITED")
				if r.Header.Get("Retry-After") == "" {
					t.Error("no Retry-After")
				}
			}
			s.Advance(time.Minute)
			r := s.Admin("GET", "/admin/v1/audit", nil)
			if r.Status != 200 || strings.Count(string(r.Body), `"operator.refused"`) != 1 {
				t.Errorf("the audit: %d %s", r.Status, r.Body)
			}
		},
	},
	{
		tries: "an address of their choice in `X-Forwarded-For`",
		gets:  "no effect: only headers of a configured proxy count",
		proof: []string{"testharness/conformance:TestClientAddress", "edge/internal/server:TestClientAddr"},
	},
	{
		says:  "An idle or slow connection occupies one connection and delays no request of others.",
		tries: "a thousand connections that send half a request and stop",
		gets:  "408; others are served as before",
		proof: []string{"cmd/verge/internal/cli:TestI15IdleConnectionsCostNobodyElseAnything",
			"edge/internal/server:TestLoad_SlowPeers", "edge/internal/server:TestConnLimits"},
	},
}}

var sibling = foothold{"Another host of the same domain", []row{
	{
		says: "Over https, Verge reads only cookies whose names begin with `__Host-`, byte for byte. " +
			"Browsers do not let another host set those. So a planted cookie cannot make a user complete " +
			"an attacker's session, and cannot sign a console user in as another person.",
		tries: "cookies of its own session, for the whole domain, with white space before their names",
		gets:  "403 for the login, and the page to sign in: browsers keep `__Host-` names to one host",
		proof: []string{"cmd/verge/internal/cli:TestPlantedCookies",
			"cmd/verge/internal/cli:TestPlantedCookiesInChromium",
			"core/web:TestCookies"},
	},
}}

// stranger returns an attacker's own ring, whose key has the same id as the service's.
func stranger(s *service) host.Sealer {
	s.t.Helper()
	file, err := keyring.Generate(rand.Reader, s.Now())
	must(s.t, err)
	file.Keys[0].ID = s.Keyring.Keys[0].ID
	return s.ring(file, hostName)
}

// submit posts a form of a page again.
func (s *service) submit(f testharness.Form) *testharness.Response {
	s.t.Helper()
	return s.Do("POST", web.HostedPath, form, []byte(f.Fields.Encode()))
}

var browser = foothold{"A browser", []row{
	{
		says: "It can read, change, share and repeat its messages. They are sealed, and the store " +
			"decides: the browser sees no state and no user id, and it cannot undo an outcome, " +
			"regain an attempt or use a result twice.",
		tries: "to read `state` and `external_user_id` out of its link",
		gets:  "sealed bytes",
		do: func(t *testing.T) {
			s := newService(t, nil)
			const state, user = "canary-state-5d2c1b", "canary-user-8e4f7a"
			link := s.Start(body{"state": state, "external_user_id": user}).RedirectURL
			raw, ok := strings.CutPrefix(flowOf(t, link), "svc_ft_")
			if !ok {
				t.Fatal("the link has no flow token")
			}
			page := s.Open(link)
			for _, text := range []string{link, string(raw), string(page.Body)} {
				if strings.Contains(text, state) || strings.Contains(text, user) ||
					strings.Contains(text, "Y2FuYXJ5") {
					t.Errorf("it contains the publisher's data: %q", text)
				}
			}
		},
	},
	{
		tries: "to guess the publisher's data from the length of its link",
		gets:  "the sum of the lengths, to 64 bytes",
		proof: []string{"core/internal/token:TestSealFlow_LengthSteps"},
	},
	{
		tries: "an altered link",
		gets:  "the page for a damaged link; the session is unchanged",
		do: func(t *testing.T) {
			s := newService(t, nil)
			started := s.Start(nil)
			if p := s.Open(started.RedirectURL[:len(started.RedirectURL)-2]); p.Status != 400 ||
				p.Kind != "damaged" {
				t.Errorf("the page is %d %s, want 400 damaged", p.Status, p.Kind)
			}
			wantStatus(t, s, started.SessionID, "PENDING")
		},
	},
	{
		tries: "the form of an old page, after the session has failed",
		gets:  "the page for a failed session; no result",
		do: func(t *testing.T) {
			s := newService(t, nil)
			started := s.Start(nil)
			page := s.Open(started.RedirectURL)
			page.Submit("reject")
			if p := page.Submit("approve"); p.Kind != "failed" || p.Callback != nil {
				t.Errorf("%s, callback %v", p.Kind, p.Callback)
			}
			wantStatus(t, s, started.SessionID, "FAILED")
		},
	},
	{
		tries: "the form of an attempt that has failed, again",
		gets:  "the current attempt; the old form is not evaluated",
		do: func(t *testing.T) {
			s := newService(t, nil)
			started := s.Start(nil)
			page := s.Open(started.RedirectURL)
			page.Submit("fail_attempt")
			for range 5 {
				page.Submit("fail_attempt") // would be the last one, if it counted
			}
			s.submit(page.Form("approve"))
			wantStatus(t, s, started.SessionID, "PENDING")
		},
	},
	{
		tries: "a result token that was used",
		gets:  "409 `ALREADY_USED`, and the link shows that it was used",
		do: func(t *testing.T) {
			s := newService(t, nil)
			started := s.Start(nil)
			text := s.Approve(started).ResultToken
			want(t, s.Validate(text), 200, "")
			want(t, s.Validate(text), 409, "ALREADY_USED")
			if p := s.Open(started.RedirectURL); p.Kind != "used" || p.Callback != nil {
				t.Errorf("%s, callback %v", p.Kind, p.Callback)
			}
		},
	},
	{
		tries: "the provider's step of another session or attempt",
		gets:  "no effect: it is not evaluated",
		proof: []string{"core/internal/hosted:TestStepToken_BoundToSession",
			"core/internal/hosted:TestStepToken_BoundToAttempt"},
	},
	{
		says: "If an OpenID method has max_age, Verge rejects an older sign-in at the provider, " +
			"even if the user edits the provider's address.",
		tries: "to take `max_age` out of the address of an OpenID provider at which a user signed in " +
			"yesterday",
		gets:  "a pending session: the ID token must contain the time of the sign-in",
		proof: []string{"core/method/oidc:TestMaxAge"},
	},
	{
		says: "Another site in the browser cannot frame a page. It cannot post a form either, if " +
			"the browser names the site.",
		tries: "a form of another site that approves",
		gets:  "403; the session is unchanged",
		do: func(t *testing.T) {
			s := newService(t, nil)
			started := s.Start(nil)
			fields := s.Open(started.RedirectURL).Form("approve").Fields.Encode()
			for _, from := range [][2]string{
				{"Sec-Fetch-Site", "cross-site"},
				{"Sec-Fetch-Site", "same-site"},
				{"Origin", "https://evil.example"},
			} {
				header := form.Clone()
				header.Set(from[0], from[1])
				if r := s.Do("POST", web.HostedPath, header, []byte(fields)); r.Status != 403 {
					t.Errorf("%v: %d", from, r.Status)
				}
			}
			wantStatus(t, s, started.SessionID, "PENDING")
		},
	},
	{
		tries: "a frame around a page",
		gets:  "an empty frame: `frame-ancestors 'none'` and `X-Frame-Options: DENY` on every page",
		do: func(t *testing.T) {
			s := newService(t, nil)
			started := s.Start(nil)
			page := s.Open(started.RedirectURL)
			for _, p := range []*testharness.Page{
				page, page.Submit("cancel"), page.Submit("approve"),
				s.Open(s.BaseURL + web.HostedPath + "?flow=x"),
			} {
				policy := p.Header.Get("Content-Security-Policy")
				if !strings.Contains(policy, "frame-ancestors 'none'") ||
					p.Header.Get("X-Frame-Options") != "DENY" {
					t.Errorf("%s can be framed: %v", p.Kind, p.Header)
				}
			}
		},
	},
	{
		says: "Current browsers name it over https. If the browser does not name the site, the form " +
			"is accepted. This includes \"Origin: null\", which some privacy settings send. To post " +
			"that form, another site has to know the session's link.",
		tries: "a form of another site that approves, in a browser that does not name the site",
		gets:  "400 without the session's link: the session is unchanged",
		do: func(t *testing.T) {
			s := newService(t, nil)
			started := s.Start(nil)
			own := s.Open(started.RedirectURL).Form("approve").Fields
			for _, flow := range []string{"", "x", "svc_flow_x"} {
				fields := maps.Clone(own)
				fields.Set("flow", flow)
				header := form.Clone()
				header.Set("Origin", "null")
				if r := s.Do("POST", web.HostedPath, header, []byte(fields.Encode())); r.Status != 400 {
					t.Errorf("with the flow token %q: %d", flow, r.Status)
				}
			}
			wantStatus(t, s, started.SessionID, "PENDING")
			header := form.Clone()
			header.Set("Origin", "null")
			if r := s.Do("POST", web.HostedPath, header, []byte(own.Encode())); r.Status != 303 {
				t.Errorf("our own form, from an older browser that withholds referrers: %d", r.Status)
			}
			wantStatus(t, s, started.SessionID, "COMPLETED")
		},
	},
}}

// publicly returns a service with production's rules, whose L1 has callback origins.
func publicly(t *testing.T) *service {
	t.Helper()
	s := newService(t, &testharness.Options{Production: true})
	s.MakeReady(s.Publisher.L1)
	s.MakeReady(s.Publisher.L2)
	s.Reconfigure(s.Publisher.L1, "",
		func(i *integration.Integration) { i.CallbackOrigins = []string{"https://shop.example"} })
	return s
}

var phone = foothold{"The holder of a hand-off link", []row{
	{
		says: "The first device that begins does the step, once. Every later device gets a page " +
			"that explains this.",
		tries: "to begin on a second phone, to repeat a verdict, and to use a forged, expired " +
			"or replaced link",
		gets: "409 or 410, and one verdict",
		proof: []string{"testharness/internal/methodtest:TestMethods",
			"testharness/internal/methodtest:TestHandOff_Invalid",
			"testharness/internal/methodtest:TestHandOff_PhoneWithoutCookies"},
	},
	{
		says: "The device gets no flow token and no result, and completes no session: only the " +
			"waiting browser does.",
		tries: "to complete the session on the phone, or in another browser than the waiting one",
		gets:  "a session that is pending until that browser arrives",
		proof: []string{"testharness/internal/methodtest:TestMethods",
			"testharness/internal/methodtest:TestHandOff_WalletOnPhone"},
	},
	{
		says:  "GET and HEAD of the link change no state.",
		tries: "GET and HEAD, as of a link scanner, and a form that another site posts",
		gets:  "a page, or 403, and no commit",
		proof: []string{"testharness/internal/methodtest:TestHandOff_LinkLoaded",
			"testharness/internal/methodtest:TestHandOff_Invalid"},
	},
	{
		says: "A victim who receives the link of an attacker's session, and confirms that the " +
			"victim's computer shows its number, is verified for that session. The page names " +
			"the site and warns.",
		tries: "to have a victim's phone prove for the attacker's session",
		gets: "a page that names the site, shows the number and warns, and no proof until the " +
			"victim confirms",
		proof: []string{"core/internal/hosted/pages:TestPagesSay",
			"testharness/internal/methodtest:TestHandOff_LinkLoaded"},
	},
}}

var estimates = foothold{"The age estimator", []row{
	{
		says: "It sees the photos, without the place, the time and the device that a photo's file " +
			"contains. It sees no data of the session, its user or its publisher.",
		tries: "to read the metadata of a photo",
		gets:  "only the orientation",
		proof: []string{"core/method/estimator:TestPicture_WithoutMetadata",
			"core/method/estimator:TestEstimator_Metadata"},
	},
	{
		says:  "It gets at most ten photos of a session, and the photo of each form once.",
		tries: "to have a browser's photos sent again, by responses without a decision",
		gets:  "one photo of each form, and ten of a session",
		proof: []string{"testharness/internal/methodtest:TestForm_SendsItsPictureOnce",
			"testharness/internal/methodtest:TestSession_SendsTenPictures"},
	},
}}

var boxHolder = foothold{"Anyone who knows the response address of a wallet", []row{
	{
		says: "They can respond once, if the method accepts the response. A rejected response is listed " +
			"in the session's last steps. Apart from that, the session is unchanged.",
		tries: "a response for another address, session or publisher, or an invalid one",
		gets:  "400 or 404, and the correct response still counts",
		proof: []string{"testharness/internal/methodtest:TestPendingResponse_Invalid",
			"testharness/internal/methodtest:TestPendingResponse_OtherPublisher"},
	},
	{
		tries: "two concurrent responses, another response after the first, and one after " +
			"the attempt has ended",
		gets: "200 for the first one only",
		proof: []string{"testharness/internal/methodtest:TestPendingResponse_FirstCounts",
			"testharness/internal/methodtest:TestPendingResponse_Late"},
	},
	{
		says: "They cannot complete the session: this needs the browser that asks, and, for a " +
			"response from its own device, a code that this browser brings back.",
		tries: "to complete a session by a response alone, or with the code in another browser",
		gets:  "a session that is pending",
		proof: []string{"testharness/internal/methodtest:TestPendingResponse_OtherDevice",
			"testharness/internal/methodtest:TestPendingResponse_SameDevice",
			"testharness/internal/methodtest:TestWaitingPage_OtherBrowser"},
	},
}}

var publicKey = foothold{"A public key, which anyone can read", []row{
	{
		says: "It starts sessions of its one integration, with a state and a user id of the " +
			"caller's choice. It has no other right.",
		tries: "a session with another user's `external_user_id`",
		gets:  "a session; the event repeats the caller's value, so a publisher must not treat it as proven",
		do: func(t *testing.T) {
			s := publicly(t)
			r := s.startPublic(nil, body{"external_user_id": "somebody-else"})
			want(t, r, 200, "")
			s.Open(r.Text("redirect_url")).Submit("approve")
			s.Settle()
			told := false
			for _, e := range s.Sink.EventsOf(r.Text("session_id")) {
				told = told || strings.Contains(string(e.Body()), `"external_user_id":"somebody-else"`)
			}
			if !told {
				t.Error("no event contains it: shorten the text")
			}
		},
	},
	{
		tries: "another integration of the same publisher",
		gets:  "403",
		do: func(t *testing.T) {
			s := publicly(t)
			want(t, s.startPublic(nil, body{"integration_id": s.Publisher.L2.ID}), 403, "FORBIDDEN")
		},
	},
	{
		tries: "validate and reconcile",
		gets:  "403; the token stays valid",
		do: func(t *testing.T) {
			s := publicly(t)
			started := s.Start(nil)
			text := s.Approve(started).ResultToken
			header := bearer(s.Publisher.L1.PublicKey)
			want(t, s.ValidateAs(header, text), 403, "FORBIDDEN")
			want(t, s.Do("GET", web.SessionsPath+started.SessionID, header, nil), 403, "FORBIDDEN")
			want(t, s.Validate(text), 200, "")
		},
	},
	{
		says:  "Result tokens of its sessions go only to the callback origins of the integration.",
		tries: "a callback elsewhere, from a program that sends no `Origin`",
		gets:  "400 for `callback_url`",
		do: func(t *testing.T) {
			s := publicly(t)
			for _, callback := range []string{
				"https://evil.example/", "https://shop.example.evil.example/", "https://shop.example:8443/",
			} {
				r := s.startPublic(nil, body{"callback_url": callback})
				want(t, r, 400, "INVALID_REQUEST")
				if d := r.Details(); len(d) != 1 || d[0] != "callback_url" {
					t.Errorf("%s: %v", callback, d)
				}
			}
		},
	},
	{
		tries: "an integration that lists no callback origins",
		gets:  "403 for every callback; no public key can be created for it either",
		do: func(t *testing.T) {
			s := publicly(t)
			s.Reconfigure(s.Publisher.L1, "", func(i *integration.Integration) { i.CallbackOrigins = nil })
			want(t, s.startPublic(nil, nil), 403, "FORBIDDEN")
			public := body{"publisher_id": s.Publisher.ID, "integration_id": s.Publisher.L1.ID}
			if r := s.Admin("POST", "/admin/v1/keys", public); r.Status < 400 {
				t.Errorf("a public key is created: %d", r.Status)
			}
		},
	},
	{
		tries: "a page of an origin that the integration does not list",
		gets:  "403, and no header that lets the page read the response",
		do: func(t *testing.T) {
			s := publicly(t)
			r := s.startPublic(testharness.Headers("Origin", "https://evil.example"), nil)
			want(t, r, 403, "FORBIDDEN")
			if r.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("a page of another origin may read the response, by %v", r.Header)
			}
		},
	},
	{
		says:  "It gives no access to other visitors' sessions.",
		tries: "the `Idempotency-Key` that another visitor's page may have sent",
		gets:  "400: a public key must not send it",
		do: func(t *testing.T) {
			s := publicly(t)
			r := s.startPublic(testharness.Headers("Idempotency-Key", "order-1001"), nil)
			want(t, r, 400, "INVALID_REQUEST")
			if d := r.Details(); len(d) != 1 || d[0] != "Idempotency-Key" {
				t.Errorf("the details name %v, want Idempotency-Key", d)
			}
		},
	},
}}

var othersKey = foothold{"Another publisher's secret key", []row{
	{
		says:  "This publisher's sessions, tokens and integrations do not exist for it.",
		tries: "a result token of this publisher",
		gets:  "400 `INVALID_TOKEN`; the token stays valid for this publisher",
		do: func(t *testing.T) {
			s := newService(t, nil)
			text := s.Approve(s.Start(nil)).ResultToken
			want(t, s.ValidateAs(bearer(s.Other.SecretKey), text), 400, "INVALID_TOKEN")
			want(t, s.Validate(text), 200, "")
		},
	},
	{
		tries: "a session and an integration of this publisher",
		gets:  "404, as for a missing one",
		do: func(t *testing.T) {
			s := newService(t, nil)
			header := bearer(s.Other.SecretKey)
			_, nobodys := s.forge(stranger(s), s.Now())
			theirs := s.Do("GET", web.SessionsPath+s.Start(nil).SessionID, header, nil)
			none := s.Do("GET", web.SessionsPath+nobodys, header, nil)
			want(t, theirs, 404, "NOT_FOUND")
			if theirs.Text("message") != none.Text("message") {
				t.Errorf("the responses differ: %s and %s", theirs.Body, none.Body)
			}
			theirs = s.startAs(header, nil)
			none = s.startAs(header, body{"integration_id": "00000000-0000-4000-8000-000000000000"})
			want(t, theirs, 404, "NOT_FOUND")
			if theirs.Text("message") != none.Text("message") {
				t.Errorf("the responses differ: %s and %s", theirs.Body, none.Body)
			}
		},
	},
	{
		says: "A stolen key of this publisher has all rights of the publisher, until five " +
			"seconds after it is revoked.",
		tries: "a stolen key, before and after the operator revokes it",
		gets:  "sessions and results, then 401",
		do: func(t *testing.T) {
			s := newService(t, nil)
			want(t, s.TryStart(nil), 200, "")
			s.revoke(s.Publisher.SecretKey)
			s.Pause(5 * time.Second)
			want(t, s.TryStart(nil), 401, "UNAUTHORIZED")
		},
	},
}}

// revoke revokes a key, like an operator.
func (s *service) revoke(key string) {
	s.t.Helper()
	id := integration.Present(integration.SecretPrefix, key).ID()
	if r := s.Admin("POST", "/admin/v1/keys/"+id+"/revoke", nil); r.Status != 200 {
		s.t.Fatalf("revoke: %d %s", r.Status, r.Body)
	}
}

// receives sends L1's events to the attacker's server.
func (s *service) receives(answer http.HandlerFunc) {
	s.t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // so that the server notices the end of the connection
		answer(w, r)
	}))
	s.t.Cleanup(server.Close)
	s.Reconfigure(s.Publisher.L1, "", func(i *integration.Integration) {
		i.Webhook.URL = server.URL +
			"/hook"
	})
}

func (s *service) waiting() string {
	s.t.Helper()
	return string(s.Admin("GET", "/admin/v1/deliveries?state=waiting", nil).Body)
}

func (s *service) startOther() string {
	s.t.Helper()
	r := s.startAs(bearer(s.Other.SecretKey), body{"integration_id": s.Other.L1.ID})
	want(s.t, r, 200, "")
	return r.Text("session_id")
}

var receiver = foothold{"A webhook receiver", []row{
	{
		says: "It receives its own events only. Its response, or a missing response, delays no " +
			"other receiver.",
		tries: "to hang",
		gets:  "its event tried again later; another publisher's is delivered",
		do: func(t *testing.T) {
			s := newService(t, &testharness.Options{WebhookTimeout: 3 * time.Second})
			s.receives(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			s.Start(nil)
			other := s.startOther()
			s.Settle()
			if types := s.Sink.Types(other); len(types) != 1 {
				t.Errorf("another publisher got %v", types)
			}
			if w := s.waiting(); !strings.Contains(w, `"timeout"`) {
				t.Errorf("waiting: %s", w)
			}
		},
	},
	{
		tries: "to hang or fail for a thousand events",
		gets:  "its own backlog; other publishers' events are not delayed",
		proof: []string{"testharness/invariants:TestI9ADeadEndpointDelaysNobody",
			"edge/internal/runner:TestRunner_HangingDestination"},
	},
	{
		tries: "an endless response, a highly compressed one, or no HTTP",
		gets:  "a closed connection: at most 64 KiB are read, within 10 seconds",
		proof: []string{"edge/egress:TestReceivers", "edge/egress:TestGzipBomb"},
	},
	{
		tries: "another integration's events under its own signature",
		gets:  "a rejection by any receiver that verifies: each integration has its own secret",
		do: func(t *testing.T) {
			s := newService(t, nil)
			text := []byte(`{"type":"verification.completed"}`)
			header := http.Header{}
			for name, value := range webhook.Headers("evt_1", s.Now(), text, s.Other.L1.WebhookSecret) {
				header.Set(name, value)
			}
			if webhook.Verify(s.Publisher.L1.WebhookSecret, header, text, s.Now(), 0) == nil {
				t.Error("another's signature verifies")
			}
			must(t, webhook.Verify(s.Other.L1.WebhookSecret, header, text, s.Now(), 0))
		},
	},
	{
		says: "It cannot lead the service to a private address, neither by a redirect nor by a " +
			"name.",
		tries: "a redirect",
		gets:  "no request: redirects are not followed",
		do: func(t *testing.T) {
			s := newService(t, nil)
			var reached atomic.Bool
			inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter,
				*http.Request) {
				reached.Store(true)
			}))
			t.Cleanup(inside.Close)
			s.receives(func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, inside.URL, http.StatusTemporaryRedirect)
			})
			s.Start(nil)
			s.Settle()
			if w := s.waiting(); reached.Load() || !strings.Contains(w, "status 307") {
				t.Errorf("followed: %v, waiting: %s", reached.Load(), w)
			}
		},
	},
	{
		tries: "a destination with a private address",
		gets:  "no connection: `destination_not_allowed`",
		do: func(t *testing.T) {
			s := newService(t, nil)
			s.Reconfigure(s.Publisher.L1, "",
				func(i *integration.Integration) { i.Webhook.URL = "https://10.0.0.1/hook" })
			s.Start(nil)
			s.Settle()
			if w := s.waiting(); !strings.Contains(w, "destination_not_allowed") {
				t.Errorf("waiting: %s", w)
			}
		},
	},
	{
		tries: "a name that has a private address, immediately or after the look-up",
		gets:  "no connection: the service dials the address that it has checked",
		proof: []string{"edge/egress:TestGuard_NamesWithPrivateAddresses", "edge/egress:TestRebinding",
			"edge/egress:TestGuard_PrivateDestinations"},
	},
}}
