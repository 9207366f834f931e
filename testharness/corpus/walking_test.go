package corpus

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/wasm/abi"
)

// Values that the sandbox reads from forms and from the external user id.
const (
	sandboxApprove     = "approve"
	sandboxReject      = "reject"
	sandboxFailAttempt = "fail_attempt"
	sandboxWithdraw    = "withdraw"
	sandboxUnknown     = "unknown"
	sandboxCancel      = "cancel"
	sandboxInitError   = "sandbox:init_error"
	sandboxSlow        = "sandbox:slow"
)

var outcomes = []string{sandboxApprove, sandboxReject, sandboxFailAttempt, sandboxWithdraw,
	sandboxUnknown, sandboxCancel}

// hosted walks through the pages as users do, and as they should not.
func hosted(s *recording) {
	for n, language := range []any{nil, "en", "de", "es", "fr", "pt", "it"} {
		for m, outcome := range outcomes {
			v := s.start(members{"language": language, "state": fmt.Sprintf("s %d", n),
				"integration_id": []string{s.shop.l1.id, s.shop.l2.id, s.shop.silent.id}[(n+m)%3]})
			s.page("the page", v)
			s.act(outcome, v, outcome)
			s.page("afterwards", v)
			if n < 2 {
				s.act(outcome+", and then approve by the same form", v, sandboxApprove)
				s.page("afterwards", v)
				s.reconcile("afterwards", v.ID)
			}
		}
	}
	for _, accept := range []string{
		"de", "de-AT,de;q=0.9", "nl, fr;q=0.5", "*", "pt-BR", "x", "en;q=0, it", strings.Repeat("de,", 500),
		"IT",
		";;;", "q=1",
	} {
		v := s.start(nil)
		s.ask("contract 10: Accept-Language", "GET", web.HostedPath+"?flow="+v.flow,
			headers("Accept-Language", accept), "")
		s.ask("contract 10: Accept-Language of a damaged link", "GET", web.HostedPath+"?flow=x",
			headers("Accept-Language", accept), "")
	}
	s.settle()
	attempts(s)
	slow(s)
	s.settle()
	late(s)
	forms(s)
}

// attempts tries contract 23.
func attempts(s *recording) {
	v := s.start(members{"language": "en"})
	for n := range 5 {
		s.act(fmt.Sprintf("contract 23: failed attempt %d", n+1), v, sandboxFailAttempt, "attempt",
			strconv.Itoa(n))
		s.act("contract 23: the same form again", v, sandboxFailAttempt, "attempt", strconv.Itoa(n))
		s.page("what is left", v, "show", "attempt")
		s.page("and without a word", v)
	}
	s.reconcile("MAX_ATTEMPTS", v.ID)
	v = s.start(members{"state": ""})
	for range 3 {
		s.act("contract 23: cancel", v, sandboxCancel)
		s.page("offers to retry", v, "show", "cancelled")
	}
	s.act("contract 23: a failed attempt", v, sandboxFailAttempt)
	s.page("with a word that there is not", v, "show", "nonsense")
	for _, attempt := range []string{"0", "2", "", "-1", "01", "1x", "99999999999999999999"} {
		s.act("contract 23: a form of attempt "+attempt, v, sandboxApprove, "attempt", attempt)
	}
	result := s.approve(v, "attempt", "1")
	s.page("the hop is shown again", v)
	s.act("contract 17: the hop again", v, sandboxApprove)
	s.act("contract 18: a late answer", v, sandboxReject)
	s.validate("validate", result)
	s.page("contract 24: a used link", v)
	s.act("contract 24: a used link acts", v, sandboxApprove)
	s.pause(6 * time.Minute)
	s.page("contract 24: an old link", v)
	s.act("contract 24: an old link acts", v, sandboxApprove)
	s.runDue("timers and events")
}

// slow has approvals that are pending for a while.
func slow(s *recording) {
	for _, wait := range []time.Duration{time.Second, 3 * time.Second, 11 * time.Minute} {
		v := s.start(members{"external_user_id": sandboxSlow})
		r := must(303, s.act("a slow approval", v, sandboxApprove))
		u, err := url.Parse(r.Header.Get("Location"))
		check(err)
		pending := u.Query().Get("provider")
		s.page("the page that waits", v, "provider", pending)
		s.page("another's pending state", s.start(nil), "provider", pending)
		s.act("another's pending state", s.start(nil), "check", "provider", pending)
		s.act("a damaged pending state", v, "check", "provider", pending[1:])
		s.act("no pending state", v, "check")
		s.pause(wait)
		s.act(fmt.Sprintf("the check after %s", wait), v, "check", "provider", pending)
		s.act("and again", v, "check", "provider", pending)
	}
}

// late does everything after the ten minutes.
func late(s *recording) {
	for n, outcome := range outcomes {
		v := s.start(members{"integration_id": []string{s.shop.l1.id, s.shop.silent.id}[n%2]})
		s.pause(10*time.Minute - 20*time.Millisecond)
		s.page("a moment before the end", v)
		s.pause(20 * time.Millisecond)
		s.page("contract 24: expired", v)
		s.act("contract 20: too late for "+outcome, v, outcome)
		s.reconcile("contract 20: expired before its timer", v.ID)
		s.runDue("the timer")
		s.reconcile("expired", v.ID)
		s.page("expired", v)
	}
}

// forms posts forms that are wrong, or of another site.
func forms(s *recording) {
	v := s.start(nil)
	post := func(name string, h web.Header, body string) { s.ask(name, "POST", web.HostedPath, h, body) }
	good := url.Values{"flow": {v.flow}, "outcome": {sandboxCancel}}.Encode()
	for _, media := range []string{
		"", "application/json", "application/x-www-form-urlencoded; charset=utf-8",
		"APPLICATION/X-WWW-FORM-URLENCODED", "text/plain", "multipart/form-data",
	} {
		post("a form of type "+media, headers("Content-Type", media), good)
	}
	for _, h := range []web.Header{
		with(form, "Origin", "https://evil.example"), with(form, "Origin", "null"), with(form, "Origin", ""),
		with(form, "Sec-Fetch-Site", "same-origin"), with(form, "Sec-Fetch-Site", "none"),
		with(form, "Sec-Fetch-Site", "cross-site"), with(form, "Sec-Fetch-Site", "same-site"),
	} {
		post("contract 22: a form from elsewhere", h, good)
	}
	for _, body := range []string{"", "flow", "flow=", "outcome=approve", "flow=" + v.flow,
		"flow=" + v.flow + "&outcome=", "flow=" + v.flow + "&outcome=nonsense",
		"flow=" + v.flow + "&outcome=APPROVE",
		"flow=" + v.flow + "&outcome=" + strings.Repeat("x", 5000), "%zz", "flow=%", "a;b=c",
		good + "&flow=x",
		"flow=x&" + good, good + "&pad=" + strings.Repeat("x", 16*1024), "\x00", "{}"} {
		post("contract 22: another form", form, body)
	}
	for _, query := range []string{
		"", "flow", "flow=", "flow=x", "flow=%zz", "flow=" + v.flow + "&flow=x", "Flow=" + v.flow,
		"flow=" + v.flow + "%20", "flow=" + v.flow + ";a=b", "show=cancelled",
		"flow=" + v.flow + "&provider=x",
	} {
		s.ask("another query", "GET", web.HostedPath+"?"+query, web.Header{}, "")
		s.ask("another query", "HEAD", web.HostedPath+"?"+query, web.Header{}, "")
	}
}

// results validates and reconciles.
func results(s *recording) {
	for _, i := range []*integrated{s.shop.l1, s.shop.l2, s.shop.silent, s.shop.off} {
		v := s.start(members{"integration_id": i.id, "external_user_id": "user-42"})
		s.reconcile("pending", v.ID)
		result := s.approve(v)
		s.reconcile("completed", v.ID)
		s.ask("contract 5: another publisher validates", "POST", web.ValidatePath, bearer(s.other.secretKey),
			members{"result_token": result}.String())
		s.ask("contract 5: another publisher reconciles", "GET",
			web.SessionsPath+v.ID, bearer(s.other.secretKey), "")
		s.validate("validate", result)
		s.validate("contract 5: used", result)
		s.validate("contract 11: used, with a key", result, "Idempotency-Key", "k")
		s.reconcile("completed and used", v.ID)
		s.ask("with a correlation id", "GET", web.SessionsPath+v.ID,
			with(bearer(s.shop.secretKey), "X-Correlation-Id", "c-1"), "")
	}
	for _, wait := range []time.Duration{
		0, 4*time.Minute + 59*time.Second, 5 * time.Minute, 11 * time.Minute, time.Hour,
	} {
		v := s.start(nil)
		result := s.approve(v)
		s.validate("contract 11: the first", result, "Idempotency-Key", "a")
		s.pause(wait)
		s.validate(fmt.Sprintf("contract 11: the same key %s later", wait), result, "Idempotency-Key", "a")
		s.validate("contract 11: another key", result, "Idempotency-Key", "b")
		s.validate("no key", result)
		s.validate("two keys", result, "Idempotency-Key", strings.Repeat("k", 256))
		v = s.start(nil)
		result = s.approve(v)
		s.pause(wait)
		s.validate(fmt.Sprintf("contract 5: a token %s old", wait), result)
	}
	s.settle()
	for _, outcome := range outcomes[1:] {
		v := s.start(nil)
		s.act(outcome, v, outcome)
		s.reconcile("after "+outcome, v.ID)
		s.runDue("what is due")
		s.pause(29 * 24 * time.Hour)
		s.reconcile("29 days later", v.ID)
		s.pause(2 * 24 * time.Hour)
		s.reconcile("contract 21: 31 days later", v.ID)
	}
	for _, body := range []members{{}, {"result_token": nil}, {"result_token": ""}, {"result_token": 1},
		{"result_token": "svc_rt_"}, {"result_token": "x"}, {"result_token": []string{}}, {"token": "x"},
		{"result_token": "svc_rt_" + strings.Repeat("A", 16000)}, {"result_token": "svc_rt_ü"}} {
		s.ask("validate: another body", "POST", web.ValidatePath, bearer(s.shop.secretKey), body.String())
	}
	s.ask("validate: null", "POST", web.ValidatePath, bearer(s.shop.secretKey), `{"result_token":null}`)
}

// tokens alters and truncates tokens, and uses one kind as another (contract 14, 15).
func tokens(s *recording) {
	v := s.start(members{"state": "s", "external_user_id": "u", "language": "de"})
	w := s.start(nil)
	result := s.approve(w)
	// flip changes one character to another of the alphabet.
	flip := func(text string, n int) string {
		c := byte('A')
		if text[n] == c {
			c = 'B'
		}
		return text[:n] + string(c) + text[n+1:]
	}
	for n := 0; n < len(v.ID); n += 2 {
		s.reconcile("contract 14: an altered id", flip(v.ID, n))
	}
	for n := 0; n < len(result); n += 5 {
		s.validate("contract 15: an altered result token", flip(result, n))
	}
	for n := 0; n < len(v.flow); n += 17 {
		s.page("contract 15: an altered flow token", started{flow: flip(v.flow, n)})
		s.act("contract 15: an altered flow token", started{flow: flip(v.flow, n)}, sandboxApprove)
	}
	other := func(text string) []string {
		last := text[len(text)-1:]
		return []string{"", text[1:], text[:len(text)-1], text + "A", text + "=", text + last, " " + text,
			text + " ", text + "\n", strings.ToUpper(text), strings.ToLower(text), text[:len(text)/2],
			text + text,
			url.QueryEscape(text + "+"), strings.ReplaceAll(text, "-", "+"),
			strings.ReplaceAll(text, "_", "/"),
			text + "\x00", "svc_rt_" + text, "svc_sess_" + text}
	}
	ids := append(other(v.ID), w.Redirect, result, v.flow,
		"x", ".", "..", "%00", "svc_sess_", strings.Repeat("A", 4000))
	for _, text := range ids {
		s.reconcile("contract 14: another id", text)
	}
	for _, text := range append(other(result), v.ID, w.flow, w.Redirect) {
		s.validate("contract 15: another result token", text)
	}
	for _, text := range append(other(v.flow), v.ID, result) {
		s.ask("contract 15: another flow token", "GET",
			web.HostedPath+"?"+url.Values{"flow": {text}}.Encode(), web.Header{}, "")
	}
	s.validate("none of it used it", result)
	s.page("none of it ended it", v)
}

// routes tries paths, methods, headers and addresses of every kind.
func routes(s *recording) {
	v := s.start(nil)
	methods := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get",
		"", "PROPFIND", "G\x00T"}
	for _, path := range []string{
		web.StartPath, web.ValidatePath, web.SessionsPath + v.ID, web.HostedPath, "/docs",
		"/api/v1/openapi.yaml",
	} {
		for _, method := range methods {
			s.ask("method "+method, method, path, bearer(s.shop.secretKey), "")
		}
	}
	for _, path := range []string{"", "/", "//", "/api", "/api/", "/api/v1", "/api/v1/verify",
		"/api/v1/verify/", "/api/v2/verify/start", web.StartPath + "/", "/" + web.StartPath,
		web.StartPath + "/x",
		strings.ToUpper(web.StartPath),
		web.StartPath + " ", web.StartPath + "\x00", web.StartPath + "\n", web.StartPath + ";a=b",
		"/api/v1/../v1/verify/start", "/api/v1/./verify/start", "/verify/", "/verify/x", "/Verify",
		"/verifyx",
		web.SessionsPath, web.SessionsPath + "/", web.SessionsPath + "a/b",
		web.SessionsPath + "ü", web.SessionsPath + "\xff\xfe", web.SessionsPath + "\x00", web.SessionsPath +
			"%2e%2e", web.SessionsPath + strings.Repeat("x", 7000), "/docs/", "/docs/x", "/assets",
		"/assets/",
		"/favicon.ico", "/robots.txt", "/.well-known/security.txt",
		"/admin/v1/keys", "/metrics", "/healthz", "/readyz", "/index.php", "/../../etc/passwd", "/\xff",
		"/你好", "/a\\b", "*", "start", "http://verge.example/verify", "/verify?flow=x", "/%00",
		"/" + strings.Repeat("a/", 3000)} {
		for _, method := range []string{"GET", "POST"} {
			s.request("another path", abi.Handle, &web.Request{Method: method, Path: path,
				Header: bearer(s.shop.secretKey), Client: netip.MustParseAddr("192.0.2.1")})
		}
	}
	for _, accept := range []string{
		"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "text/html;q=0",
		"application/json, text/html", "*/*", strings.Repeat("x/y,", 300) + "text/html",
	} {
		for _, path := range []string{"/", "/nowhere", "/verify/", "/api/v1/nowhere", "/favicon.ico"} {
			s.ask("contract 22: people get pages", "GET", path,
				headers("Accept", accept, "Accept-Language", "fr"), "")
			s.ask("contract 22: people get pages", "POST", path, headers("Accept", accept), "")
		}
	}
	for _, id := range []string{
		"c-1", "", " ", strings.Repeat("x", 128), strings.Repeat("x", 129), "ü", "a\nb", "a\x7f", "~",
		`"quoted"`, "<b>", "a,b",
	} {
		s.ask("contract 4: X-Correlation-Id on an answer", "GET", web.SessionsPath+v.ID,
			with(bearer(s.shop.secretKey), "X-Correlation-Id", id), "")
		s.ask("contract 4: X-Correlation-Id on an error", "GET", "/nowhere", headers("X-Correlation-Id", id),
			"")
		s.ask("contract 4: X-Correlation-Id twice", "GET", "/nowhere",
			headers("X-Correlation-Id", "first", "X-Correlation-Id", id), "")
	}
	for _, client := range []string{
		"", "192.0.2.7", "::ffff:192.0.2.7", "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::1", "::1", "127.0.0.1",
		"fe80::1", "0.0.0.0", "255.255.255.255",
	} {
		q := &web.Request{Method: "GET", Path: web.SessionsPath + v.ID, Header: bearer(s.shop.secretKey)}
		if client != "" {
			q.Client = netip.MustParseAddr(client)
		}
		s.request("contract 30: a client at "+client, abi.Handle, q)
		p := &web.Request{Method: "POST", Path: web.StartPath, Client: q.Client,
			Body: []byte(s.startBody(members{"public_key": s.shop.l1.publicKey}))}
		s.request("contract 30: a browser at "+client, abi.Handle, p)
	}
	for _, h := range []web.Header{{}, nil, {"": {"x"}}, {"X": nil}, {"X": {}}, {"Authorization": {}},
		{"Authorization": {""}}, {"Origin": {"a", "b"}}, {"\xff": {"\xfe"}}, {"Content-Length": {"-1"}},
		{"Host": {"evil.example"}}, {"X-Forwarded-For": {"203.0.113.9"}}, {"Transfer-Encoding": {"chunked"}},
		{"Accept": {strings.Repeat("x", 4000)}}} {
		s.ask("other headers", "POST", web.StartPath, h, s.startBody(nil))
		s.ask("other headers", "GET", web.HostedPath+"?flow="+v.flow, h, "")
	}
	s.do("ready", abi.Ready, nil)
}
