package attackers

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/testharness"
)

// keyName returns the store's name for the record of an API key.
func keyName(text string) kv.Key {
	sum := sha256.Sum256([]byte(text))
	return kv.Key{Partition: integration.Partition, Name: "c/key/" + hex.EncodeToString(sum[:])}
}

// integrationName returns the store's name for an integration.
func integrationName(id string) kv.Key {
	return kv.Key{Partition: integration.Partition, Name: "c/int/" + id}
}

// ownKey returns a forged key, and the record that would make it a publisher's.
func (s *service) ownKey() (text string, record []byte) {
	s.t.Helper()
	text, err := integration.GenerateKey(integration.SecretPrefix, rand.Reader)
	must(s.t, err)
	record, err = json.Marshal(integration.Key{ID: integration.Present(integration.SecretPrefix, text).ID(),
		PublisherID: s.Publisher.ID, Last4: text[len(text)-4:], Created: s.Now()})
	must(s.t, err)
	return text, record
}

// weakSecret is a secret that a person would choose.
const weakSecret = "summer-2026-shop"

// lived returns a service whose store has one record of each kind, and the secrets that must not be found
// there.
func lived(t *testing.T) (s *service, started testharness.Started, secrets map[string]string) {
	t.Helper()
	s = newReadable(t)
	const state, user = "canary-state-5d2c1b", "canary-user-8e4f7a"
	s.Reconfigure(s.Publisher.L1, weakSecret, func(*integration.Integration) {})
	s.Sink.SetSecret(s.Publisher.L1, weakSecret)
	s.MakeReady(s.Publisher.L1)
	s.Sink.Always(testharness.Answer(500)) // after this, events wait
	given := body{"state": state, "external_user_id": user}
	header := bearer(s.Publisher.SecretKey)
	header.Set("Idempotency-Key", "order-1001")
	kept := s.startAs(header, given)
	want(t, kept, 200, "")
	started = s.Start(given)
	back := s.Approve(started)
	header.Set("Idempotency-Key", "order-1002")
	want(t, s.ValidateAs(header, back.ResultToken), 200, "")
	s.Start(given)
	s.Settle()
	s.Open(s.Start(given).RedirectURL).Submit("reject") // and an event before its first attempt
	operator, _ := s.operator("operator")
	cookie := s.enter("admin")
	invitation := secretOf(t, s.Admin("POST", "/admin/v1/invitations",
		body{"publisher_id": s.Publisher.ID, "role": "viewer", "name": "Vera Canary"}))
	return s, started, map[string]string{
		"secret key": s.Publisher.SecretKey, "public key": s.Publisher.L1.PublicKey,
		"operator token": s.OperatorToken,
		"webhook secret": weakSecret, "another's webhook secret": s.Other.L1.WebhookSecret,
		"webhook URL": s.Publisher.L1.WebhookURL, "state": state, "external_user_id": user,
		"flow token": flowOf(t, started.RedirectURL), "kept flow token": flowOf(t, kept.Text("redirect_url")),
		"result token":               back.ResultToken,
		"Idempotency-Key of a start": "order-1001", "Idempotency-Key of a validation": "order-1002",
		"made operator token": operator, "invitation": invitation,
		"staged webhook secret": s.stage(cookie, s.Publisher.L2.ID),
		"cookie":                cookie, "sign-in link": s.link(operator, "admin"),
	}
}

// noDigest fails if the store has a digest of a message, without a key or with one of the keys.
func (s *service) noDigest(messages []string, keys ...string) {
	s.t.Helper()
	dump := s.dump()
	for _, message := range messages {
		sum, long := sha256.Sum256([]byte(message)), sha512.Sum512([]byte(message))
		digests := [][]byte{sum[:], long[:]}
		for _, key := range keys {
			mac := hmac.New(sha256.New, []byte(key))
			mac.Write([]byte(message))
			digests = append(digests, mac.Sum(nil))
		}
		for _, d := range digests {
			for _, text := range []string{hex.EncodeToString(d)[:16],
				base64.StdEncoding.EncodeToString(d)[:12], base64.RawURLEncoding.EncodeToString(d)[:12]} {
				if strings.Contains(dump, text) {
					s.t.Errorf("the store holds a digest of %q", message)
				}
			}
		}
	}
}

var reader = foothold{"A reader of the store", []row{
	{
		says: "They find no key, no token, no cookie, invitation or sign-in link, no webhook " +
			"secret or URL (staged webhooks included), no state and no user id, and no data to " +
			"check a guess at a webhook secret.",
		tries: "to find them in the store's bytes, while events wait and responses are stored",
		gets:  "none, neither in the clear nor in base64",
		do: func(t *testing.T) {
			s, _, secrets := lived(t)
			dump := s.dump()
			if !strings.Contains(dump, keyName(s.Publisher.SecretKey).Name) ||
				strings.Count(dump, "\n") < 40 {
				t.Fatalf("this is not the store:\n%s", dump)
			}
			for name, secret := range secrets {
				for _, text := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret))[:12],
					base64.RawURLEncoding.EncodeToString([]byte(secret))[:12],
					secret[:min(len(secret), 40)]} {
					if strings.Contains(dump, text) {
						t.Errorf("the store holds a %s", name)
					}
				}
			}
		},
	},
	{
		tries: "a guess at a secret that a person chose, with every digest of it and the URL",
		gets:  "no match: the stored check of a tested secret needs the key ring",
		do: func(t *testing.T) {
			s, _, _ := lived(t)
			url, id := s.Publisher.L1.WebhookURL, s.Publisher.L1.ID
			s.noDigest([]string{weakSecret, url + "\x00" + weakSecret, weakSecret + "\x00" + url,
				url + weakSecret, weakSecret + url, "tested\x00" + url + "\x00" + weakSecret, id + weakSecret,
				id + "\x00" + weakSecret}, "", url, id, weakSecret)
		},
	},
	{
		tries: "a guess at an `Idempotency-Key`, such as the number of an order, with every digest of it " +
			"and the names in the store",
		gets: "no match: a check needs the API key or the key ring",
		do: func(t *testing.T) {
			s, _, _ := lived(t)
			key := integration.Present(integration.SecretPrefix, s.Publisher.SecretKey).ID()
			names := []string{"", key, s.Publisher.ID, s.Publisher.L1.ID}
			var messages []string
			for _, guess := range []string{"order-1001", "order-1002"} {
				for _, name := range names {
					messages = append(messages, name+guess, name+"\x00"+guess, guess+"\x00"+name)
				}
			}
			s.noDigest(messages, names...)
		},
	},
	{
		says: "Anyone who has seen one signed event can try secrets until one fits, so common " +
			"secrets are rejected outside dev.",
		tries: "words, names and years, against a signature they have seen",
		gets:  "no secret of the service: it rejects secrets of such a list, and offers a generated one",
		proof: []string{"core/integration:TestWeakSecret", "core/integration:TestSiteValidate"},
	},
	{
		says: "They see publishers, integrations with their `alert_url`, and session ids with their " +
			"outcomes and the last method. About the last steps without success they see the method, the " +
			"reason and the setting.",
		tries: "to read who is verified where, and how it ended",
		gets:  "publishers and integrations by name, session ids of waiting events, outcomes with their time",
		do: func(t *testing.T) {
			s, started, _ := lived(t)
			dump := s.dump()
			for _, text := range []string{s.Publisher.ID, s.Publisher.L1.ID, started.SessionID, `"s":"completed"`} {
				if !strings.Contains(dump, text) {
					t.Errorf("the store does not contain %s: change the text", text)
				}
			}
		},
	},
	{
		says: "They see the author and the time of each change of a setting, and the host of a " +
			"changed webhook.",
		tries: "to read the audit",
		gets:  "names, times and settings; no secret, and of a webhook's address no path and no query",
		proof: []string{"core/integration:TestPutWritesOnlyWhatChanged", "core/internal/audit:TestOrigin"},
	},
	{
		says: "They see members by name and role, the daily usage of an integration, and the " +
			"attempts and results of each event of the last days.",
		tries: "to read who works with the service, how much, and with which results",
		gets:  "names, counts and attempts; of an event the parts without the user's data",
		do: func(t *testing.T) {
			s, _, _ := lived(t)
			must(t, s.RecordUsage())
			dump := s.dump()
			for _, text := range []string{"Vera Canary", "u/" + s.Publisher.L1.ID, "l/" + s.Publisher.L1.ID} {
				if !strings.Contains(dump, text) {
					t.Errorf("the store does not contain %s: change the text", text)
				}
			}
		},
	},
	{
		tries: "the body of an event that was delivered",
		gets:  "the body without `publisher_state` and `external_user_id`",
		proof: []string{"core/internal/outbox:TestLog_DeliveredWithoutStateAndUser"},
	},
	{
		says: "They see the level and ages, the publisher and the creation time of each passkey, " +
			"and, if it has a counter, the time of its last use. They see no name of its user " +
			"and no data of a session.",
		tries: "to read who has passkeys, and where they were used",
		gets:  "their public keys, levels, ages, methods and publishers",
		proof: []string{
			"core/internal/passkey:TestKeep_StoredData",
			"testharness/conformance:TestPasskeys",
		},
	},
}}

var writer = foothold{"A writer to the store", []row{
	{
		says: "They cannot create an outcome, key, integration, member, operator token, passkey, trusted " +
			"list or session of the console, and cannot move one to another name. They can cause or " +
			"prevent an alert to a publisher.",
		tries: "a completed outcome under a session's name",
		gets:  "503 and a page without a result: records without a valid MAC are ignored",
		do: func(t *testing.T) {
			s := newService(t, nil)
			started := s.Start(nil)
			s.plant(outcomeKey(s.idOf(started.SessionID)), completed(s.Now()))
			s.grantsNothing(started)
		},
	},
	{
		tries: "the outcome of their own session, moved to another's name",
		gets:  "503 and a page without a result",
		do: func(t *testing.T) {
			s := newService(t, nil)
			mine, started := s.Start(nil), s.Start(nil)
			s.Approve(mine)
			s.plant(outcomeKey(s.idOf(started.SessionID)), s.read(outcomeKey(s.idOf(mine.SessionID))).Value)
			s.grantsNothing(started)
		},
	},
	{
		tries: "a record under the hash of an invented key",
		gets:  "401; it is not listed for operators",
		do: func(t *testing.T) {
			s := newService(t, nil)
			text, record := s.ownKey()
			s.plant(keyName(text), record)
			want(t, s.startAs(bearer(text), nil), 401, "UNAUTHORIZED")
			list := s.Admin("GET", "/admin/v1/keys", nil)
			if strings.Contains(string(list.Body), integration.Present(integration.SecretPrefix, text).ID()) {
				t.Errorf("listed: %s", list.Body)
			}
		},
	},
	{
		tries: "a publisher's record, moved under the hash of an invented key",
		gets:  "401",
		do: func(t *testing.T) {
			s := newService(t, nil)
			text, _ := s.ownKey()
			s.plant(keyName(text), s.read(keyName(s.Publisher.SecretKey)).Value)
			want(t, s.startAs(bearer(text), nil), 401, "UNAUTHORIZED")
		},
	},
	{
		tries: "a forged integration, an altered one, and one moved to another's name",
		gets:  "503 for its users; no session and no event",
		do: func(t *testing.T) {
			for name, change := range map[string]func(s *service, value string) string{
				"altered": func(_ *service, v string) string {
					return strings.Replace(v, `"challenge_age":25`, `"challenge_age":18`, 1)
				},
				"moved": func(s *service,
					_ string) string {
					return string(s.read(integrationName(s.Other.L1.ID)).Value)
				},
				"made": func(s *service, _ string) string {
					return `{"id":"` + s.Publisher.L1.ID +
						`","publisher_id":"pub_shop","level":"L1","challenge_age":25,"method":"sandbox",` +
						`"webhook":{"url":"` + s.Sink.URL + `/evil"}}`
				},
			} {
				s := newService(t, nil)
				at := integrationName(s.Publisher.L1.ID)
				before := string(s.read(at).Value)
				after := change(s, before)
				if after == before {
					t.Fatalf("%s: nothing changes", name)
				}
				s.plant(at, []byte(after))
				if r := s.TryStart(nil); r.Status != 503 || r.Code() != "UNAVAILABLE" ||
					r.Header.Get("Retry-After") == "" {
					t.Errorf("%s: %d %s", name, r.Status, r.Body)
				}
				s.Engine.RunDue(ctx)
				if n := len(s.Sink.Deliveries()); n != 0 {
					t.Errorf("%s: %d deliveries", name, n)
				}
			}
		},
	},
	{
		tries: "a member, an invitation, a link, an operator token and a session, forged, altered or moved",
		gets:  "503 for its users; lists without it; it counts as no admin",
		proof: []string{"core/internal/member:TestRegistry_ForgedRecords",
			"core/internal/member:TestLists_ForgedRecords"},
	},
	{
		tries: "a forged passkey, an improved one, and one moved to another's name",
		gets:  "an error for its users; it completes no session",
		proof: []string{"core/internal/passkey:TestStore_ForgedItems"},
	},
	{
		tries: "a staged secret, moved to another integration or over the active secret",
		gets:  "a secret that does not open",
		proof: []string{"core/integration:TestStage_SecretBoundToRecord"},
	},
	{
		says:  "They cannot add an entry to the audit, the log of deliveries or the usage.",
		tries: "a forged entry, one moved to another publisher, and one moved in time",
		gets:  "a list without the entry",
		proof: []string{"core/internal/audit:TestList_ForgedEntries",
			"core/internal/outbox:TestDeliveries_ForgedEntries",
			"core/internal/usage:TestRead_ForgedItems"},
	},
	{
		says:  "They cannot send an event to another integration than its own.",
		tries: "another integration in the clear part of a waiting event",
		gets:  "a dead event with the reason unreadable; no receiver gets it",
		do: func(t *testing.T) {
			s := newService(t, nil)
			s.Start(body{"state": "canary-state-5d2c1b"})
			for _, task := range s.tasks() {
				moved := strings.Replace(string(task.Payload), s.Publisher.L1.ID, s.Other.L1.ID, 1)
				if moved == string(task.Payload) {
					t.Fatalf("the task does not name its integration: %q", task.Payload)
				}
				s.write(kv.Tx{Partition: partition, Held: []kv.Held{{TaskID: task.ID, Lease: task.Lease}},
					Schedule: []kv.Task{{ID: task.ID, Due: s.Now(), Payload: []byte(moved)}}})
			}
			s.Settle()
			if n := len(s.Sink.Deliveries()); n != 0 {
				t.Errorf("%d deliveries", n)
			}
			dead := s.Admin("GET", "/admin/v1/deliveries", nil)
			if !strings.Contains(string(dead.Body), "unreadable") {
				t.Errorf("given up: %s", dead.Body)
			}
		},
	},
	{
		says: "They can delete, and restore an earlier state: a used result token is valid again " +
			"within its five minutes, a revoked key or operator token works again, a removed " +
			"member is back, an event is lost.",
		tries: "to delete the mark that a result token was used",
		gets:  "200 again, until the token is five minutes old",
		do: func(t *testing.T) {
			s := newService(t, nil)
			started := s.Start(nil)
			text := s.Approve(started).ResultToken
			want(t, s.Validate(text), 200, "")
			used := s.idOf(started.SessionID).UsedKey()
			s.write(kv.Tx{Partition: partition, Deletes: []string{used.Name}})
			want(t, s.Validate(text), 200, "")
			s.write(kv.Tx{Partition: partition, Deletes: []string{used.Name}})
			s.Pause(5 * time.Minute)
			want(t, s.Validate(text), 410, "EXPIRED")
		},
	},
	{
		tries: "to restore the record of a key that was revoked since",
		gets:  "a key that works again: check the list of keys after a break-in",
		do: func(t *testing.T) {
			s := newService(t, nil)
			at := keyName(s.Publisher.SecretKey)
			before := s.read(at).Value
			s.revoke(s.Publisher.SecretKey)
			s.Pause(cacheLife)
			want(t, s.TryStart(nil), 401, "UNAUTHORIZED")
			s.plant(at, before)
			want(t, s.TryStart(nil), 200, "")
		},
	},
	{
		tries: "to restore the record of an operator token that was revoked since, and a session " +
			"that was signed out",
		gets: "both work again: check the operator tokens after a break-in; a session lives for " +
			"12 hours at most",
		do: func(t *testing.T) {
			s := newService(t, nil)
			text, id := s.operator("operator")
			before := s.read(operatorName(text)).Value
			want(t, s.Admin("POST", "/admin/v1/operators/"+id+"/revoke", nil), 200, "")
			want(t, s.as(text, "GET", "/admin/v1/keys", nil), 401, "UNAUTHORIZED")
			s.plant(operatorName(text), before)
			want(t, s.as(text, "GET", "/admin/v1/keys", nil), 200, "")

			cookie := s.enter("viewer")
			sum := sha256.Sum256([]byte(cookie))
			at := kv.Key{Partition: integration.Partition, Name: "c/con/" + hex.EncodeToString(sum[:])}
			session := s.read(at).Value
			out := "do=sign-out&csrf=" + s.formToken(cookie, "/account", "sign-out")
			wantPage(t, "signing out", s.console(cookie, "/account", out), 303)
			s.plant(at, session)
			wantPage(t, "put back", s.console(cookie, s.mine(""), ""), 200)
			s.Pause(12 * time.Hour)
			wantPage(t, "12 hours later", s.console(cookie, s.mine(""), ""), 303)
		},
	},
	{
		tries: "to delete a waiting event, and an outcome",
		gets: "no event; a session that is shown as pending, and a result token that " +
			"no longer validates",
		do: func(t *testing.T) {
			s := newService(t, nil)
			started := s.Start(nil)
			text := s.Approve(started).ResultToken
			for _, task := range s.tasks() {
				s.write(kv.Tx{Partition: partition, Cancel: []string{task.ID}})
			}
			s.write(kv.Tx{Partition: partition,
				Deletes: []string{outcomeKey(s.idOf(started.SessionID)).Name}})
			s.Settle()
			if types := s.Sink.Types(started.SessionID); len(types) != 0 {
				t.Errorf("delivered: %v", types)
			}
			wantStatus(t, s, started.SessionID, "PENDING")
			want(t, s.Validate(text), 400, "INVALID_TOKEN")
		},
	},
	{
		says: "An entry of the audit that they delete remains in the log, where a missing line " +
			"breaks a chain of hashes.",
		tries: "to delete the entry of a new operator token, and its line in the log",
		gets:  "an audit without the entry; a log that has it, or that `verge audit verify` rejects",
		do:    deletedEntry,
	},
}}

// deletedEntry deletes an entry of the audit, and then its line in the log.
func deletedEntry(t *testing.T) {
	s := newService(t, nil)
	_, first := s.operator("viewer")
	_, _ = s.operator("viewer")
	var log []string
	line := -1
	for text := range strings.Lines(s.Logs()) {
		if strings.Contains(text, `"msg":"audit"`) && strings.Contains(text, `"target":"`+first+`"`) {
			line = len(log)
		}
		log = append(log, text)
	}
	if line < 0 {
		t.Fatalf("the log has no line of the entry: %s", log)
	}
	var said struct{ ID string }
	must(t, json.Unmarshal([]byte(log[line]), &said))
	s.write(kv.Tx{Partition: integration.Partition, Deletes: []string{"c/aud/" + said.ID}})
	if list := s.Admin("GET", "/admin/v1/audit", nil); strings.Contains(string(list.Body), said.ID) {
		t.Errorf("the audit still has %s", said.ID)
	}
	check := func(lines []string) (wrong []string) {
		var chain core.AuditChain
		for _, text := range lines {
			if found := chain.Add([]byte(text)); found != "" {
				wrong = append(wrong, found)
			}
		}
		return wrong
	}
	if wrong := check(log); len(wrong) > 0 {
		t.Errorf("contract 48: a whole log is rejected: %q", wrong)
	}
	if wrong := check(slices.Delete(log, line, line+1)); len(wrong) != 1 {
		t.Errorf("contract 48: a log without the line: %q, want one gap", wrong)
	}
}

// grantsNothing checks that a session with a forged outcome is never shown as completed.
func (s *service) grantsNothing(started testharness.Started) {
	s.t.Helper()
	if r := s.Reconcile(started.SessionID); r.Status != 503 || r.Header.Get("Retry-After") == "" {
		s.t.Errorf("reconcile: %d %s", r.Status, r.Body)
	}
	page := s.Do("GET", web.HostedPath+"?flow="+flowOf(s.t, started.RedirectURL), nil, nil)
	if page.Status != 503 || strings.Contains(string(page.Body), "svc_rt_") {
		s.t.Errorf("the page: %d %s", page.Status, page.Body)
	}
}
