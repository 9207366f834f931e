package attackers

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/wait"
)

// as calls the operators' API with another token.
func (s *service) as(token, method, path string, b any) *testharness.Response {
	s.t.Helper()
	own := s.OperatorToken
	s.OperatorToken = token
	defer func() { s.OperatorToken = own }()
	return s.Admin(method, path, b)
}

// operator creates an operator token and returns it with its id.
func (s *service) operator(role string) (text, id string) {
	s.t.Helper()
	r := s.Admin("POST", "/admin/v1/operators", body{"name": "Olga", "role": role})
	want(s.t, r, 200, "")
	var made struct {
		Token string
		Info  struct{ ID string }
	}
	must(s.t, json.Unmarshal(r.Body, &made))
	return made.Token, made.Info.ID
}

// secretOf returns the text after the last = of the link in a response.
func secretOf(t testing.TB, r *testharness.Response) string {
	t.Helper()
	want(t, r, 200, "")
	link := r.Text("link")
	return link[strings.LastIndex(link, "=")+1:]
}

// link creates a sign-in link to the console of the publisher.
func (s *service) link(token, role string) string {
	s.t.Helper()
	return secretOf(s.t, s.as(token, "POST", "/admin/v1/links",
		body{"publisher_id": s.Publisher.ID, "role": role}))
}

const consoleCookie = "verge-console"

// console requests a page of the console, or posts a form if there are fields.
func (s *service) console(cookie, path, fields string, header ...string) *testharness.Response {
	s.t.Helper()
	h, method := testharness.Headers(header...), "GET"
	if cookie != "" {
		h.Set("Cookie", consoleCookie+"="+cookie)
	}
	if fields != "" {
		method = "POST"
		h.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return s.Do(method, "/console"+path, h, []byte(fields))
}

// use uses a sign-in link, and returns the cookie, or "" if the link does not work.
func (s *service) use(link string) string {
	s.t.Helper()
	return cookieOf(s.console("", "/link", "do=use-link&token="+link))
}

func cookieOf(r *testharness.Response) string {
	for _, c := range (&http.Response{Header: r.Header}).Cookies() {
		if c.Name == consoleCookie {
			return c.Value
		}
	}
	return ""
}

// enter returns the cookie of a person with that role in the publisher.
func (s *service) enter(role string) string {
	s.t.Helper()
	cookie := s.use(s.link(s.OperatorToken, role))
	if cookie == "" {
		s.t.Fatal("the link does not work")
	}
	return cookie
}

// formToken returns the token of a form on a page.
func (s *service) formToken(cookie, path, action string) string {
	s.t.Helper()
	page := string(s.console(cookie, path, "").Body)
	return s.field(page, path, action, "csrf")
}

// field returns the value of a hidden field in a form on a page, as a browser sends it.
func (s *service) field(page, path, action, name string) string {
	s.t.Helper()
	_, rest, _ := strings.Cut(page, `data-action="`+action+`"`)
	m := regexp.MustCompile(`name="` + name + `" value="([^"]+)"`).FindStringSubmatch(rest)
	if m == nil {
		s.t.Fatalf("%s has no form %s with a %s", path, action, name)
	}
	return url.QueryEscape(m[1])
}

func (s *service) mine(path string) string { return "/p/" + s.Publisher.ID + path }

// stage stages a new webhook secret on the page of an integration, and returns it from the next page.
func (s *service) stage(cookie, integration string) string {
	s.t.Helper()
	path := s.mine("/integrations/" + integration + "/webhook")
	const action = "stage-webhook"
	form := string(s.console(cookie, path, "").Body)
	done := s.console(cookie, path, "do="+action+"&csrf="+s.field(form, path, action, "csrf")+
		"&version="+s.field(form, path, action, "version"))
	wantPage(s.t, "staging a secret", done, 303)
	page := s.console(cookie, strings.TrimPrefix(done.Header.Get("Location"), "/console"), "")
	secret := regexp.MustCompile(`whsec_[\w+/=]+`).FindString(string(page.Body))
	if secret == "" {
		s.t.Fatalf("no secret on the page:\n%s", page.Body)
	}
	return secret
}

// wantPage checks the status of a page of the console.
func wantPage(t testing.TB, what string, r *testharness.Response, status int) {
	t.Helper()
	if r.Status != status {
		t.Errorf("%s: %d, want %d", what, r.Status, status)
	}
}

var consoleSite = foothold{"Another site, in a browser that is signed in to the console", []row{
	{
		says: "It can neither frame a page nor act: a form counts only with the token of its " +
			"session and action. Requests from other domains carry no cookie, and forms from other hosts " +
			"of the domain are rejected.",
		tries: "a form without a token, with the token of another action or session, from another site, or " +
			"by GET",
		gets: "403 for each form, without a change",
		do: func(t *testing.T) {
			s := newService(t, nil)
			cookie, other, path := s.enter("admin"), s.enter("admin"), s.mine("/keys")
			good := s.formToken(cookie, path, "create-key")
			for what, fields := range map[string]string{
				"no token": "do=create-key",
				"another action's": "do=create-key&csrf=" +
					s.formToken(cookie, s.mine("/members"), "invite-member"),
				"another session's": "do=create-key&csrf=" +
					s.formToken(other, path, "create-key"),
			} {
				wantPage(t, what, s.console(cookie, path, fields), 403)
			}
			for _, from := range [][2]string{{"Sec-Fetch-Site", "cross-site"},
				{"Sec-Fetch-Site", "same-site"}, {"Origin", "null"}, {"Origin", "https://evil.example"}} {
				wantPage(t, from[1], s.console(cookie, path, "do=create-key&csrf="+good, from[:]...), 403)
			}
			before := len(s.Admin("GET", "/admin/v1/keys", nil).Body)
			wantPage(t, "by GET", s.console(cookie, path+"?do=create-key&csrf="+good, ""), 200)
			if after := len(s.Admin("GET", "/admin/v1/keys", nil).Body); after != before {
				t.Error("a GET has created a key")
			}
			wantPage(t, "our own form", s.console(cookie, path, "do=create-key&csrf="+good), 303)
		},
	},
	{
		tries: "a frame around a page, the cookie, and a page from a cache",
		gets:  "`frame-ancestors 'none'`; `SameSite=Strict` and `HttpOnly`; `no-store` on every page",
		proof: []string{"core/internal/console:TestHeaders", "core/internal/console:TestSignIn",
			"core/internal/console:TestPostsOfOtherSites"},
	},
}}

var member = foothold{"A member of a publisher", []row{
	{
		says:  "They see their own publisher. Objects of another publisher do not exist for them.",
		tries: "another publisher's ids in paths, queries, cursors and forms",
		gets:  "404 for each, in every role",
		do: func(t *testing.T) {
			s := newService(t, nil)
			started := s.startOther()
			cookie, theirs := s.enter("admin"), "/p/"+s.Other.ID
			other := s.Other.L1.ID
			for _, path := range []string{theirs, theirs + "/keys", theirs + "/usage.csv",
				theirs + "/nothing",
				s.mine("/integrations/" + other), s.mine("/integrations/" + other + "/webhook"),
				s.mine("/deliveries?integration=" + other), s.mine("/usage?integration=" + other),
				s.mine("/test?integration=" + other), s.mine("/sessions/" + started), "/publishers",
				"/operators",
				"/audit"} {
				wantPage(t, path, s.console(cookie, path, ""), 404)
			}
			made := s.Admin("POST", "/admin/v1/keys", body{"publisher_id": s.Other.ID})
			var key struct{ Info struct{ ID string } }
			must(t, json.Unmarshal(made.Body, &key))
			path := s.mine("/keys")
			for _, field := range []string{"key=" + key.Info.ID, "key=key_0000000000000000"} {
				wantPage(t, field, s.console(cookie, path,
					"do=revoke-key&"+field+"&csrf="+revokeToken(s, cookie, path)), 404)
			}
			wantPage(t, "a key for it", s.console(cookie, path,
				"do=create-key&integration_id="+other+"&csrf="+s.formToken(cookie, path, "create-key")), 404)
		},
	},
	{
		tries: "invented cursors",
		gets:  "an error, or their own objects",
		proof: []string{"core/operate:TestList_ForeignCursor",
			"core/internal/console:TestConsole_OtherPublisher"},
	},
	{
		says: "They have the rights of their role. A change of role, a removal and a sign-out take " +
			"effect immediately everywhere. An API key that they have seen counts until it is revoked.",
		tries: "every operation in every role, with their own form",
		gets:  "403 if the role lacks the right",
		proof: []string{"core/operate:TestRights_Table", "core/operate:TestTable_EveryFunction",
			"core/internal/console:TestConsole_FormsByRole", "core/internal/member:TestSession_NewRole"},
	},
	{
		tries: "a cookie from before a sign-out, at another instance",
		gets:  "the page to sign in",
		do: func(t *testing.T) {
			s := newService(t, nil)
			other := s.sharing(s.Keyring)
			token, _ := s.operator("operator")
			cookie := s.use(s.link(token, "developer"))
			wantPage(t, "another instance", other.console(cookie, s.mine(""), ""), 200)
			out := "do=sign-out&csrf=" + s.formToken(cookie, "/account", "sign-out")
			wantPage(t, "signing out", s.console(cookie, "/account", out), 303)
			for _, at := range []*service{s, other} {
				wantPage(t, "after it", at.console(cookie, s.mine(""), ""), 303)
			}
		},
	},
	{
		tries: "a cookie of a member who is removed, or signed out everywhere; to remove the last admin",
		gets:  "the page to sign in; a publisher keeps an admin, even if two remove each other concurrently",
		proof: []string{"core/internal/member:TestSession_CookieEnds",
			"core/internal/member:TestRemove_LastAdmin",
			"core/internal/member:TestRemove_TwoAdminsConcurrently"},
	},
}}

// revokeToken returns the token of the form that revokes a key. The page has the form if a key exists.
func revokeToken(s *service, cookie, path string) string {
	s.t.Helper()
	want(s.t, s.Admin("POST", "/admin/v1/keys", body{"publisher_id": s.Publisher.ID}), 200, "")
	return s.formToken(cookie, path, "revoke-key")
}

var ticket = foothold{"The finder of an invitation or a sign-in link", []row{
	{
		says:  "It works once. GET and HEAD do not use it.",
		tries: "a link that was loaded before: twenty concurrent uses at two instances, and another one",
		gets:  "one session",
		do: func(t *testing.T) {
			s := newService(t, nil)
			other := s.sharing(s.Keyring)
			token, _ := s.operator("operator")
			link := s.link(token, "admin")
			wantPage(t, "looking", s.console("", "/link?link="+link, ""), 200)
			cookies := make(chan string)
			for n := range 20 {
				go func() { cookies <- []*service{s, other}[n%2].use(link) }()
			}
			sessions := 0
			for range 20 {
				if wait.For(cookies) != "" {
					sessions++
				}
			}
			if sessions != 1 || s.use(link) != "" {
				t.Errorf("%d sessions, and then perhaps another one", sessions)
			}
		},
	},
	{
		tries: "a used invitation, two concurrent uses, or a second use after a lost reply",
		gets:  "one member",
		proof: []string{"core/internal/member:TestInvitation_WorksOnce",
			"core/internal/member:TestInvitation_ConcurrentUse",
			"core/internal/member:TestLostReplies"},
	},
	{
		says: "An invitation ends after a day and a link after five minutes. Both end when their " +
			"author loses the right to create them.",
		tries: "late ones, and those of a revoked operator token or of a person who " +
			"is no longer an admin",
		gets: "the page for an expired link",
		proof: []string{"core/internal/member:TestInvitation_Life",
			"core/internal/member:TestLink_Malformed",
			"core/internal/member:TestLink_CreatorLosesRight",
			"core/internal/member:TestInvitation_CreatorLosesRight"},
	},
}}

var stolenToken = foothold{"The thief of an operator token", []row{
	{
		says: "They have the rights of its role, until it is revoked. That ends immediately all " +
			"sessions, links and invitations that depend on it.",
		tries: "a session, a sign-in link and an invitation created with it, after it is revoked",
		gets:  "401, the page to sign in, and pages for expired links",
		do: func(t *testing.T) {
			s := newService(t, nil)
			other := s.sharing(s.Keyring)
			token, id := s.operator("operator")
			signedIn := cookieOf(s.console("", "/sign-in", "do=sign-in&token="+token))
			byLink, link := s.use(s.link(token, "admin")), s.link(token, "admin")
			invitation := secretOf(t, s.as(token, "POST", "/admin/v1/invitations",
				body{"publisher_id": s.Publisher.ID, "role": "admin"}))
			all := func(page, ticket, call int) {
				t.Helper()
				for _, at := range []*service{s, other} {
					wantPage(t, "their session", at.console(signedIn, "/publishers", ""), page)
					wantPage(t, "the session of their link", at.console(byLink, s.mine(""), ""), page)
					wantPage(t, "their link", at.console("", "/link?link="+link, ""), ticket)
					wantPage(t, "their invitation", at.console("", "/invitation?invitation="+invitation, ""),
						ticket)
					wantPage(t, "the API", at.as(token, "GET", "/admin/v1/keys", nil), call)
				}
			}
			all(200, 200, 200)
			want(t, s.Admin("POST", "/admin/v1/operators/"+id+"/revoke", nil), 200, "")
			all(303, 410, 401)
		},
	},
	{
		says: "Operator tokens and API keys that they have created, and members that they admitted, stay " +
			"until they are revoked or removed, too. The audit lists them with the stolen token's name.",
		tries: "an operator token and an API key that were created with it, after it is revoked",
		gets:  "the rights of both",
		do: func(t *testing.T) {
			s := newService(t, nil)
			stolen, id := s.operator("operator")
			var token struct{ Token string }
			must(t, json.Unmarshal(s.as(stolen, "POST", "/admin/v1/operators",
				body{"name": "Olaf", "role": "operator"}).Body, &token))
			var key struct{ Key string }
			must(t, json.Unmarshal(s.as(stolen, "POST", "/admin/v1/keys",
				body{"publisher_id": s.Publisher.ID}).Body, &key))
			want(t, s.Admin("POST", "/admin/v1/operators/"+id+"/revoke", nil), 200, "")
			want(t, s.as(stolen, "GET", "/admin/v1/keys", nil), 401, "UNAUTHORIZED")
			want(t, s.as(token.Token, "GET", "/admin/v1/keys", nil), 200, "")
			want(t, s.startAs(bearer(key.Key), nil), 200, "")
			entries := string(s.Admin("GET", "/admin/v1/audit", nil).Body)
			for _, want := range []string{"operator.create", "key.create", "Olga"} {
				if !strings.Contains(entries, want) {
					t.Errorf("the audit has no %s: %s", want, entries)
				}
			}
		},
	},
}}

var viewer = foothold{"An operator with the role viewer", []row{
	{
		says:  "They see every publisher and cannot change any state.",
		tries: "every call that changes something, with the current version",
		gets:  "403 for each",
		do: func(t *testing.T) {
			s := newService(t, nil)
			token, id := s.operator("viewer")
			i := "/admin/v1/integrations/" + s.Publisher.L1.ID
			for path, b := range map[string]body{
				"/admin/v1/publishers":  {"name": "a"},
				"/admin/v1/keys":        {"publisher_id": s.Publisher.ID},
				"/admin/v1/links":       {"role": "operator"},
				"/admin/v1/operators":   {"name": "a", "role": "operator"},
				"/admin/v1/invitations": {"publisher_id": s.Publisher.ID, "role": "admin"},
				i + "/test":             {}, i + "/test-event": {"type": "verification.completed"},
				i + "/test-session":                     {"callback_url": "http://localhost/"},
				"/admin/v1/operators/" + id + "/revoke": {}, "/admin/v1/site": {},
			} {
				want(t, s.as(token, "POST", path, b), 403, "FORBIDDEN")
			}
			want(t, s.as(token, "GET", i, nil), 200, "")
		},
	},
	{
		says:  "They see no key, secret or token, and no state and no user id.",
		tries: "to find them in each response, while events wait and become dead",
		gets:  "nothing",
		do: func(t *testing.T) {
			s, started, secrets := lived(t)
			token, _ := s.operator("viewer")
			delete(secrets, "webhook URL") // they see it
			i := s.Publisher.L1.ID
			for _, path := range []string{"publishers", "integrations", "integrations/" + i, "keys",
				"operators", "deliveries", "deliveries?state=waiting", "deliveries?integration_id=" + i,
				"sessions/" + started.SessionID, "usage?integration_id=" + i, "audit", "methods",
				"members?publisher_id=" + s.Publisher.ID, "invitations?publisher_id=" + s.Publisher.ID} {
				r := s.as(token, "GET", "/admin/v1/"+path, nil)
				want(t, r, 200, "")
				for name, secret := range secrets {
					if strings.Contains(string(r.Body), secret) {
						t.Errorf("%s tells a %s", path, name)
					}
				}
			}
		},
	},
}}

// operatorName is the store's name for the record of an operator token.
func operatorName(text string) kv.Key {
	sum := sha256.Sum256([]byte(text))
	return kv.Key{Partition: integration.Partition, Name: "c/op/" + hex.EncodeToString(sum[:])}
}
