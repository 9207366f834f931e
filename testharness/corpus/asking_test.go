package corpus

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/web"
)

// start begins sessions with everything that a publisher may send, and with
// everything that one may get wrong.
func start(s *recording) {
	try := func(name string, change members) *web.Response {
		return s.ask("start: "+name, "POST", web.StartPath, bearer(s.shop.secretKey), s.startBody(change))
	}
	states := []any{nil, "", "s-1", "Grüße, 你好 🙂", strings.Repeat("x", 1024),
		strings.Repeat("x", 1025), "line\nbreak", "\x7f", "\u202e", 7, true, []string{"a"}, members{"a": 1}}
	for _, language := range []any{nil, "en", "de", "es", "fr", "pt", "it", "", "EN", "nl", "de-AT", 1} {
		for _, state := range states[:4] {
			try(fmt.Sprintf("language %v, state %v", language, state),
				members{"language": language, "state": state})
		}
	}
	for _, state := range states {
		try("a state of another kind", members{"state": state})
		try("a user of another kind", members{"external_user_id": state})
	}
	for _, n := range []int{1, 255, 256, 257} {
		try(fmt.Sprintf("a user of %d bytes", n), members{"external_user_id": strings.Repeat("u", n)})
		try(fmt.Sprintf("a user of %d bytes, two each", n&^1),
			members{"external_user_id": strings.Repeat("ü", n/2)})
	}
	for _, id := range []any{s.shop.l1.id, s.shop.l2.id, s.shop.silent.id, s.shop.off.id, s.other.l1.id,
		strings.ToUpper(s.shop.l1.id), "int_" + s.shop.l1.id,
		"00000000-0000-0000-0000-000000000000", "", "x", s.shop.l1.id[:35], s.shop.l1.id + "0",
		"{" + s.shop.l1.id + "}", strings.ReplaceAll(s.shop.l1.id, "-", ""), nil, 1, members{}} {
		try(fmt.Sprintf("integration %v", id), members{"integration_id": id})
	}
	try("contract 5: every bad field at once", members{"integration_id": "x", "callback_url": "x", "state": 1,
		"external_user_id": 2, "language": "x"})
	try("contract 3: unknown members are ignored", members{"unknown": members{"deep": []int{1}}})
	try("a provider that cannot begin", members{"external_user_id": sandboxInitError})
	try("a provider that cannot begin, without a webhook",
		members{"external_user_id": sandboxInitError, "integration_id": s.shop.silent.id})

	credentials(s)
	idempotency(s)
	bodies(s)
	preflights(s)
}

// credentials tries credentials on each of the three endpoints (contract 5, 9, 12).
func credentials(s *recording) {
	expires := s.now.Add(time.Hour)
	old := s.key(s.shop.id, "", &expires)
	oldPublic := s.key(s.shop.id, s.shop.l1.id, &expires)
	v := s.start(nil)
	result := s.approve(v)
	secret, public := s.shop.secretKey, s.shop.l1.publicKey
	tried := []struct {
		name   string
		header web.Header
	}{
		{"a secret key", bearer(secret)},
		{"a secret key, lower case", headers("Authorization", "bearer "+secret)},
		{"a secret key, two blanks", headers("Authorization", "Bearer  "+secret)},
		{"a secret key twice", headers("Authorization", "Bearer "+secret, "Authorization", "Bearer "+secret)},
		{"another publisher's", bearer(s.other.secretKey)},
		{"a public key", bearer(public)},
		{"an unknown public key", bearer(public[:len(public)-1] + "_")},
		{"a mistyped key", bearer(strings.Replace(secret, secret[20:21], "_", 1))},
		{"a key cut short", bearer(secret[:len(secret)-1])},
		{"a key in another case", bearer(strings.ToUpper(secret))},
		{"a key of another service", bearer("sk_live_0123456789")},
		{"nothing", web.Header{}},
		{"an empty header", headers("Authorization", "")},
		{"Bearer and nothing", headers("Authorization", "Bearer ")},
		{"Basic", headers("Authorization", "Basic dTpw")},
		{"a secret key from a page", with(bearer(secret), "Origin", origin)},
		{"a secret key, Sec-Fetch-Site", with(bearer(secret), "Sec-Fetch-Site", "cross-site")},
		{"a secret key, Sec-Fetch-Mode", with(bearer(secret), "Sec-Fetch-Mode", "cors")},
		{"an expiring key", bearer(old)},
		{"a key that was never given", bearer("svc_sk_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg000000")},
		{"the operator token", bearer(operatorToken)},
		{"a key, and an odd correlation", with(bearer(secret), "X-Correlation-Id", "c-1")},
	}
	for round := range 2 {
		for _, c := range tried {
			s.ask("start: "+c.name, "POST", web.StartPath, c.header, s.startBody(nil))
			s.ask("validate: "+c.name, "POST", web.ValidatePath, c.header,
				members{"result_token": result}.String())
			s.ask("reconcile: "+c.name, "GET", web.SessionsPath+v.ID, c.header, "")
		}
		for _, from := range []string{
			"", origin, "https://evil.example", "null", origin + ":443", strings.ToUpper(origin),
		} {
			h := web.Header{}
			if from != "" {
				h.Set("Origin", from)
			}
			s.ask(fmt.Sprintf("start: a public key from origin %q", from), "POST", web.StartPath, h,
				s.startBody(members{"public_key": public}))
		}
		for _, k := range []any{
			oldPublic, s.shop.l2.publicKey, s.other.l1.publicKey, secret, "", "x", 1, public[:20],
		} {
			s.ask("start: another public key", "POST", web.StartPath, headers("Origin", origin),
				s.startBody(members{"public_key": k}))
			s.ask("validate: with a public key in the body", "POST", web.ValidatePath, web.Header{},
				members{"result_token": result, "public_key": k}.String())
		}
		s.ask("contract 9: both keys", "POST", web.StartPath, bearer(secret),
			s.startBody(members{"public_key": public}))
		s.ask("validate: a public key in the body", "POST", web.ValidatePath, web.Header{},
			members{"result_token": result, "public_key": public}.String())
		if round == 0 {
			s.pause(2 * time.Hour) // the keys expire, and the service drops its copies of them
		}
	}
	revoked := s.key(s.shop.id, "", nil)
	s.ask("start: a key", "POST", web.StartPath, bearer(revoked), s.startBody(nil))
	keys, _, err := s.setup.Directory().ListKeys(context.Background(), "", "", 100)
	check(err)
	for _, k := range keys {
		if k.Last4 == revoked[len(revoked)-4:] {
			_, err := s.setup.Directory().RevokeKey(context.Background(), k.ID)
			check(err)
		}
	}
	s.ask("start: the key is revoked, and was read a moment ago", "POST", web.StartPath, bearer(revoked),
		s.startBody(nil))
	s.pause(5 * time.Second)
	s.ask("contract 12: the key is revoked for five seconds", "POST", web.StartPath, bearer(revoked),
		s.startBody(nil))
}

// idempotency tries contract 11 on start.
func idempotency(s *recording) {
	try := func(name string, key []string, change members) *web.Response {
		h := bearer(s.shop.secretKey)
		h["Idempotency-Key"] = key
		return s.ask("contract 11: "+name, "POST", web.StartPath, h, s.startBody(change))
	}
	for _, key := range [][]string{
		{"k1"}, {"k 2"}, {strings.Repeat("k", 255)}, {strings.Repeat("k", 256)}, {""}, {"ü"}, {"\x01"},
		{"a", "b"}, {},
	} {
		try("a key", key, nil)
		try("again", key, nil)
		try("another body", key, members{"state": "other"})
	}
	try("a provider that cannot begin", []string{"k3"}, members{"external_user_id": sandboxInitError})
	try("again", []string{"k3"}, members{"external_user_id": sandboxInitError})
	s.ask("contract 11: another publisher's", "POST", web.StartPath,
		with(bearer(s.other.secretKey), "Idempotency-Key", "k1"),
		s.startBody(members{"integration_id": s.other.l1.id}))
	s.ask("contract 11: with a public key", "POST", web.StartPath,
		headers("Origin", origin, "Idempotency-Key", "k1"),
		s.startBody(members{"public_key": s.shop.l1.publicKey}))
	s.pause(10 * time.Minute)
	try("after ten minutes", []string{"k1"}, nil)
}

// bodies sends what is not a JSON object, or has another form (contract 3).
func bodies(s *recording) {
	whole := s.startBody(nil)
	odd := []string{"", " ", "null", "true", "1", `"x"`, "[]", "[{}]", "{}", "{", "}", "{}{}", "{} x",
		"\xef\xbb\xbf{}", "{\"a\":\"\xff\"}", `{"a":1,"a":2}`, `{"a":NaN}`, `{a:1}`, `{'a':1}`,
		`{"a":1,}`, `{"a":"\ud800"}`, `{"a":"\u0000"}`, "{\"a\":\"\x00\"}", `{"a":1e999}`,
		strings.Repeat("[", 5000), strings.Repeat(`{"a":`, 3000), whole + "\n", " " + whole, whole + whole,
		strings.Replace(whole, "{", `{"state":"a","state":"b",`, 1),
		strings.Replace(whole, "{", `{"State":"a",`, 1), strings.ReplaceAll(whole, "{", "{/*x*/"),
		strings.Replace(whole, "{", `{"pad":"`+strings.Repeat("x", 16*1024)+`",`, 1),
		strings.Replace(whole, "{", `{"pad":"`+strings.Repeat("x", 16*1024-len(whole)-9)+`",`, 1)}
	for _, body := range odd {
		for _, path := range []string{web.StartPath, web.ValidatePath} {
			s.ask("contract 3: another body", "POST", path, bearer(s.shop.secretKey), body)
		}
	}
	for n := 1; n < len(whole); n += 2 {
		s.ask("contract 3: a body cut short", "POST", web.StartPath, bearer(s.shop.secretKey), whole[:n])
		s.ask("contract 3: a body with another byte", "POST", web.StartPath, bearer(s.shop.secretKey),
			whole[:n]+string(rune(whole[n]^1))+whole[n+1:])
	}
	for _, media := range []string{"application/json", "application/json; charset=utf-8", "APPLICATION/JSON",
		"application/json;charset=latin1", " application/json ", "text/json", "text/plain",
		"application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/problem+json",
		"",
		";", "application/jsonx"} {
		h := with(bearer(s.shop.secretKey), "Content-Type", media)
		s.ask("contract 3: Content-Type "+media, "POST", web.StartPath, h, whole)
		s.ask("contract 3: Content-Type "+media, "POST", web.ValidatePath, h, `{"result_token":"x"}`)
	}
}

// preflights tries contract 7.
func preflights(s *recording) {
	for _, from := range []string{origin, "https://other.example", "https://evil.example", "null", ""} {
		for _, method := range []string{"POST", "GET", ""} {
			h := headers("Origin", from, "Access-Control-Request-Method", method,
				"Access-Control-Request-Headers", "content-type")
			s.ask("contract 7: preflight", "OPTIONS", web.StartPath, h, "")
		}
		s.ask("contract 7: preflight of validate", "OPTIONS", web.ValidatePath,
			headers("Origin", from, "Access-Control-Request-Method", "POST"), "")
	}
}

// callbacks sends the published list of good and bad ones (contract 8).
func callbacks(s *recording, dev bool) {
	if !dev {
		must(200, s.admin("contract 29: test", "POST", "/admin/v1/integrations/"+s.shop.l1.id+"/test", nil,
			""))
	}
	var vectors struct {
		Bad, Good []struct {
			URL, Why string
			Dev      bool
			Origins  []string
		}
	}
	list, err := os.ReadFile("../../core/internal/weburl/testdata/callback_urls.json")
	check(err)
	check(json.Unmarshal(list, &vectors))
	var before string
	for _, v := range append(vectors.Bad, vectors.Good...) {
		if v.Dev != dev {
			continue
		}
		if now := strings.Join(v.Origins, " "); now != before {
			before = now
			s.change(s.shop.l1.id, func(i *integration.Integration) { i.CallbackOrigins = v.Origins })
			s.pause(5 * time.Second)
		}
		r := s.ask("contract 8: "+v.Why, "POST", web.StartPath, bearer(s.shop.secretKey),
			s.startBody(members{"callback_url": v.URL, "state": "s"}))
		if r.Status == 200 && len(s.recorder.Steps)%4 == 0 {
			s.approve(s.session(r))
		}
	}
}
