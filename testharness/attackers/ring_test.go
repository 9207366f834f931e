package attackers

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/sessiontest"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/testharness"
)

// leaked returns a service whose ring leaked and was rotated 19 days ago, and the leaked ring. The service
// has signed all records again since.
func leaked(t *testing.T) (s *service, old host.Sealer, now keyring.File) {
	t.Helper()
	s, old, now = leakedJustNow(t)
	s.Settle()
	return s, old, now
}

// leakedJustNow is leaked before the service has signed any record again.
func leakedJustNow(t *testing.T) (s *service, old host.Sealer, now keyring.File) {
	t.Helper()
	file, err := keyring.Generate(rand.Reader, testharness.Epoch.AddDate(0, 0, -40))
	must(t, err)
	before := keyring.File{Keys: slices.Clone(file.Keys)}
	must(t, file.Rotate(rand.Reader, testharness.Epoch.AddDate(0, 0, -19), 0))
	s = newService(t, &testharness.Options{Keyring: file})
	return s, s.ring(before, hostName), file
}

// record returns a stored object, signed by a ring.
func (s *service) record(ring host.Sealer, at kv.Key, object []byte) []byte {
	s.t.Helper()
	b, err := sessiontest.Forger{Sealer: ring}.Record(at.String(), object)
	must(s.t, err)
	return b
}

// webhookOf opens the stored webhook of an integration.
func webhookOf(t testing.TB, ring host.Sealer, item kv.Item) (secret, url string) {
	t.Helper()
	var i integration.Integration
	must(t, json.Unmarshal(item.Value, &i))
	claims, err := sessiontest.Forger{Sealer: ring}.OpenSecret(i.Webhook.Sealed)
	must(t, err)
	var c struct {
		Secret string `json:"sec"`
		URL    string `json:"url"`
	}
	must(t, json.Unmarshal(claims, &c))
	return c.Secret, c.URL
}

var replacedRing = foothold{"The holder of a replaced key ring", []row{
	{
		says: "They cannot create any data with a date later than five minutes after the " +
			"replacement.",
		tries: "a session id dated today, and a result token for it",
		gets:  "404, and 400 `INVALID_TOKEN`",
		do: func(t *testing.T) {
			s, old, _ := leaked(t)
			_, text := s.forge(old, s.Now())
			want(t, s.Reconcile(text), 404, "NOT_FOUND")
			want(t, s.Validate(s.result(old, resultClaims{Session: text,
				Completed: s.Now()})), 400, "INVALID_TOKEN")
		},
	},
	{
		tries: "result tokens dated today for an active session and for an earlier one",
		gets:  "400 `INVALID_TOKEN`",
		do: func(t *testing.T) {
			s, old, _ := leaked(t)
			_, before := s.forge(old, s.Now().AddDate(0, 0, -20))
			for _, text := range []string{s.Start(nil).SessionID, before} {
				want(t, s.Validate(s.result(old, resultClaims{Session: text,
					Completed: s.Now()})), 400, "INVALID_TOKEN")
			}
		},
	},
	{
		tries: "a link to their own callback, for an active session",
		gets:  "the page for a damaged link",
		do: func(t *testing.T) {
			s, old, _ := leaked(t)
			started := s.Start(nil)
			flow, err := sessiontest.Forger{Sealer: old}.Flow(started.SessionID, "https://evil.example/",
				s.Now().Add(10*time.Minute))
			must(t, err)
			p := s.Open(s.BaseURL + "/verify?flow=" + flow)
			if p.Status != 400 || p.Kind != "damaged" || p.Callback != nil {
				t.Errorf("%d %s, callback %v", p.Status, p.Kind, p.Callback)
			}
		},
	},
	{
		tries: "with write access to the store: the outcome of an active session",
		gets:  "503 and a page without a result",
		do: func(t *testing.T) {
			s, old, _ := leaked(t)
			started := s.Start(nil)
			at := outcomeKey(s.idOf(started.SessionID))
			s.plant(at, s.record(old, at, completed(s.Now())))
			s.grantsNothing(started)
		},
	},
	{
		says:  "They can open all data that it has sealed.",
		tries: "with a copy of the store from that time: webhook secrets and URLs",
		gets:  "both, so set new webhook secrets after a leak",
		do: func(t *testing.T) {
			before := newService(t, nil)
			old := before.ring(before.Keyring, hostName)
			secret, url := webhookOf(t, old, before.read(integrationName(before.Publisher.L1.ID)))
			if secret != before.Publisher.L1.WebhookSecret || url != before.Publisher.L1.WebhookURL {
				t.Errorf("it opens as %q, %q, shorten the text", secret, url)
			}
		},
	},
	{
		tries: "with a copy of the present store",
		gets:  "none: webhook secrets are sealed again once the new key is active",
		do: func(t *testing.T) {
			s, old, _ := leaked(t)
			var i integration.Integration
			must(t, json.Unmarshal(s.read(integrationName(s.Publisher.L1.ID)).Value, &i))
			if _, err := (sessiontest.Forger{Sealer: old}).OpenSecret(i.Webhook.Sealed); err == nil {
				t.Error("the secret opens with the replaced ring")
			}
		},
	},
	{
		tries: "the same, if secrets were set before the rotation",
		gets:  "none, after the instance with the new active key has checked the store",
		proof: []string{"core/keyset:TestReseal_ActiveKeyOnly",
			"core/integration:TestResealLeavesNothingToAnOldKey"},
	},
	{
		says: "Until the key is retired, and with write access to the store, they can create events " +
			"and session outcomes that are dated before the replacement. Reconcile shows such " +
			"outcomes; validate rejects them.",
		tries: "with write access to the store: a session of twenty days ago and its outcome",
		gets:  "`COMPLETED` by reconcile; 410 by validate; 404 as soon as the old ring key is retired",
		do: func(t *testing.T) {
			s, old, file := leaked(t)
			id, text := s.forge(old, s.Now().AddDate(0, 0, -20))
			at := outcomeKey(id)
			tx := s.plant(at, s.record(old, at, completed(id.Created)))
			wantStatus(t, s, text, "COMPLETED")
			want(t, s.Validate(s.result(old, resultClaims{Session: text,
				Completed: id.Created, Outcome: tx})), 410, "EXPIRED")

			must(t, file.Retire(file.Keys[1].ID, s.Now(), 30*24*time.Hour, true))
			want(t, s.sharing(file).Reconcile(text), 404, "NOT_FOUND")
		},
	},
	{
		tries: "with write access to the store: an event of twenty days ago, and one of today",
		gets:  "the first is delivered, with its old `created_at`; the other becomes dead as unreadable",
		do: func(t *testing.T) {
			s, old, _ := leaked(t)
			for days, delivered := range map[int]int{-20: 1, 0: 0} {
				_, session := s.forge(old, s.Now().AddDate(0, 0, days))
				e := webhook.Completed(webhook.Head{ID: webhook.NewID(rand.Reader),
					CreatedAt:   s.Now().AddDate(0, 0, days),
					PublisherID: s.Publisher.ID, IntegrationID: s.Publisher.L1.ID, SessionID: session},
					"L1", 25, nil, nil)
				task, err := sessiontest.Forger{Sealer: old}.EventTask(e, s.Publisher.L1.ID, s.Now())
				must(t, err)
				before := len(s.Sink.Deliveries())
				s.write(kv.Tx{Partition: partition, Schedule: []kv.Task{task}})
				s.Settle()
				if n := len(s.Sink.Deliveries()) - before; n != delivered {
					t.Errorf("dated %d days from now: %d deliveries, want %d", days, n, delivered)
				}
			}
		},
	},
	{
		says: "They cannot create long-lived records once the service has signed all of them again " +
			"with the new key. That is done about six minutes after the new key becomes active.",
		tries: "with write access to the store: the record of an invented secret key",
		gets:  "401 after that time",
		do: func(t *testing.T) {
			s, old, _ := leaked(t)
			text, object := s.ownKey()
			s.plant(keyName(text), s.record(old, keyName(text), object))
			want(t, s.startAs(bearer(text), nil), 401, "UNAUTHORIZED")
			must(t, s.Service.Directory().Reseal(ctx))
			s.Settle()
			s.Pause(cacheLife)
			want(t, s.startAs(bearer(text), nil), 401, "UNAUTHORIZED")
		},
	},
	{
		tries: "with write access to the store: the records of operator tokens of twenty days ago and " +
			"of today",
		gets: "503, even after another instance has started",
		do: func(t *testing.T) {
			s, old, file := leaked(t)
			for _, days := range []int{-20, 0} {
				text, at, object := s.ownOperator(days)
				s.plant(at, s.record(old, at, object))
				want(t, s.as(text, "GET", "/admin/v1/keys", nil), 503, "UNAVAILABLE")
				next := s.sharing(file)
				next.Settle()
				want(t, next.as(text, "GET", "/admin/v1/keys", nil), 503, "UNAVAILABLE")
			}
		},
	},
	{
		tries: "with write access to the store: publishers, usage and entries of the audit; the same " +
			"after they have deleted " +
			"the set of keys, restored an older one or planted a forged one",
		gets: "no effect: a running instance restores the set, a starting instance uses the set " +
			"signed with the " +
			"new key, and a set without the MAC of a key that it lists makes instances not ready",
		proof: []string{"core/keyset:TestTheft_LongLivedRecords",
			"core/keyset:TestTheft_AllRecordKinds", "core/keyset:TestSet_ReplacedRing"},
	},
	{
		says: "Records that they have planted by then stay.",
		tries: "with write access to the store, as soon as the new key is active: an invented secret key " +
			"and operator token",
		gets: "both work permanently, even after the old ring key is retired: check keys, operator " +
			"tokens and members after a leak",
		do: func(t *testing.T) {
			s, old, file := leakedJustNow(t)
			text, object := s.ownKey()
			s.plant(keyName(text), s.record(old, keyName(text), object))
			operator, at, record := s.ownOperator(-20)
			s.plant(at, s.record(old, at, record))
			s.Settle()
			must(t, file.Retire(file.Keys[1].ID, s.Now(), 30*24*time.Hour, true))
			s = s.sharing(file)
			want(t, s.startAs(bearer(text), nil), 200, "")
			want(t, s.as(operator, "GET", "/admin/v1/keys", nil), 200, "")
		},
	},
	{
		says: "The same is true if, while no instance runs, they restore the set of keys as it was " +
			"in those minutes, or the whole store as it was before, and plant records then.",
		tries: "with write access to the store: to restore both, before an instance starts",
		gets: "the same as after the rotation: about six minutes in which planted records " +
			"are signed again",
		proof: []string{"core/keyset:TestTheft_LongLivedRecords"},
	},
}}

// ownOperator returns an operator token, and a record that would make it valid, dated days from now.
func (s *service) ownOperator(days int) (text string, at kv.Key, object []byte) {
	s.t.Helper()
	text, err := integration.GenerateKey("vrg_op_", rand.Reader)
	must(s.t, err)
	at, date := operatorName(text), s.Now().AddDate(0, 0, days)
	object, err = json.Marshal(map[string]any{"at": date, "of": map[string]any{"id": "op_" + at.Name[5:21],
		"name": "forged", "role": "operator", "created": date}})
	must(s.t, err)
	return text, at, object
}

var currentRing = foothold{"The holder of the current key ring", []row{
	{
		says:  "They create every session id, token and record, and open all sealed data.",
		tries: "a session id, and a link to their own callback",
		gets:  "a session that is `PENDING`, and a user who is redirected to their callback with a result",
		do: func(t *testing.T) {
			s := newService(t, nil)
			ring := s.ring(s.Keyring, hostName)
			_, text := s.forge(ring, s.Now())
			wantStatus(t, s, text, "PENDING")
			flow, err := sessiontest.Forger{Sealer: ring}.Flow(text, "https://evil.example/",
				s.Now().Add(10*time.Minute))
			must(t, err)
			back := s.Open(s.BaseURL + "/verify?flow=" + flow).Submit("approve").Callback
			if back == nil || !strings.HasPrefix(back.URL, "https://evil.example/") ||
				back.ResultToken == "" {
				t.Errorf("redirected to %+v: shorten the text", back)
			}
		},
	},
	{
		tries: "with read access to the store: a webhook secret",
		gets:  "the secret, and events that every receiver accepts as genuine",
		do: func(t *testing.T) {
			s := newService(t, nil)
			secret, _ := webhookOf(t, s.ring(s.Keyring, hostName), s.read(integrationName(s.Publisher.L1.ID)))
			header, text := http.Header{}, []byte(`{"type":"verification.completed"}`)
			for name, value := range webhook.Headers("evt_1", s.Now(), text, secret) {
				header.Set(name, value)
			}
			if err := webhook.Verify(s.Publisher.L1.WebhookSecret, header, text, s.Now(), 0); err != nil {
				t.Errorf("%v, shorten the text", err)
			}
		},
	},
	{
		says: "A result still needs its completed outcome in the store: without write access they " +
			"cannot validate a session that no user completed.",
		tries: "a result token of a session that was never completed, with and without the " +
			"name of an outcome",
		gets: "400 `INVALID_TOKEN`",
		do: func(t *testing.T) {
			s := newService(t, nil)
			ring := s.ring(s.Keyring, hostName)
			started := s.Start(nil)
			failed := s.Start(nil)
			s.Open(failed.RedirectURL).Submit("reject")
			item := s.read(outcomeKey(s.idOf(failed.SessionID)))
			_, made := s.forge(ring, s.Now())
			for _, c := range []resultClaims{
				{Session: started.SessionID}, {Session: started.SessionID, Outcome: rand.Text()},
				{Session: made}, {Session: made, Outcome: item.Tx},
				{Session: failed.SessionID},
			} {
				c.Completed = s.Now()
				want(t, s.Validate(s.result(ring, c)), 400, "INVALID_TOKEN")
			}
		},
	},
	{
		tries: "the same with write access to the store: the outcome, and a token that names it",
		gets:  "200, `verified: true`",
		do: func(t *testing.T) {
			s := newService(t, nil)
			ring := s.ring(s.Keyring, hostName)
			id, text := s.forge(ring, s.Now())
			at := outcomeKey(id)
			c := resultClaims{Session: text, Completed: s.Now()}
			c.Outcome = s.plant(at, s.record(ring, at, completed(s.Now())))
			if r := s.Validate(s.result(ring, c)); r.Status != 200 || r.JSON()["verified"] != true {
				t.Errorf("%d %s, shorten the text", r.Status, r.Body)
			}
		},
	},
}}

// earlier returns a service with a key ring of an earlier release.
func earlier(t *testing.T) (s *service, file keyring.File) {
	t.Helper()
	text := fmt.Sprintf(`{"version":1,"keys":[{"id":"9f02ab31","secret":%q,"created":%q}]}`,
		base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32)),
		testharness.Epoch.Format(time.RFC3339Nano))
	file, err := keyring.Parse([]byte(text))
	must(t, err)
	return newService(t, &testharness.Options{Keyring: file}), file
}

// rotated returns the service an hour after its ring was rotated with this release.
func (s *service) rotated(file keyring.File) *service {
	s.t.Helper()
	file.Keys = slices.Clone(file.Keys)
	must(s.t, file.Rotate(rand.Reader, s.Now(), 0))
	next := s.sharing(file)
	next.Pause(time.Hour)
	next.Settle() // it signs all stored records with the new key
	return next
}

var earlierKeys = foothold{"Keys of an earlier release", []row{
	{
		says: "A key without seals_from binds no session id to the host and allows records without " +
			"a MAC in the store, as that release did, until the ring is rotated once with this " +
			"release.",
		tries: "a session id of another host with such a key",
		gets:  "`PENDING`; after the rotation 404",
		do: func(t *testing.T) {
			s, file := earlier(t)
			_, text := s.forge(s.ring(file, "staging.example"), s.Now())
			wantStatus(t, s, text, "PENDING")
			s = s.rotated(file)
			_, text = s.forge(s.ring(file, "staging.example"), s.Now())
			want(t, s.Reconcile(text), 404, "NOT_FOUND")
			_, text = s.forge(s.ring(s.Keyring, "staging.example"), s.Now())
			want(t, s.Reconcile(text), 404, "NOT_FOUND")
		},
	},
	{
		tries: "to write outcomes and keys into the store",
		gets:  "both are accepted; after the rotation 503 and 401",
		do: func(t *testing.T) {
			s, file := earlier(t)
			plant := func(s *service) (started testharness.Started, key string) {
				started = s.Start(nil)
				s.plant(outcomeKey(s.idOf(started.SessionID)), completed(s.Now()))
				key, object := s.ownKey()
				s.plant(keyName(key), object)
				return started, key
			}
			started, key := plant(s)
			wantStatus(t, s, started.SessionID, "COMPLETED")
			want(t, s.startAs(bearer(key), nil), 200, "")
			s = s.rotated(file)
			started, key = plant(s)
			s.grantsNothing(started)
			want(t, s.startAs(bearer(key), nil), 401, "UNAUTHORIZED")
		},
	},
	{
		says:  "A return to that release is possible only before that rotation.",
		tries: "to read this release's data with the earlier release",
		gets: "all data until a key with `seals_from` is active; then webhook URLs are sealed, which that " +
			"release cannot read",
		proof: []string{"core/integration:TestRecord_EarlierRelease"},
	},
}}

var clocks = foothold{"Clocks", []row{
	{
		says:  "Two instances whose clocks differ by more than five minutes disagree about expiry.",
		tries: "a result token at an instance whose clock is six minutes ahead",
		gets:  "410 there, and 200 elsewhere",
		do: func(t *testing.T) {
			s := newService(t, nil)
			ahead := s.sharing(s.Keyring)
			ahead.Pause(6 * time.Minute)
			here, there := s.Approve(s.Start(nil)).ResultToken, s.Approve(s.Start(nil)).ResultToken
			want(t, s.Validate(here), 200, "")
			want(t, ahead.ValidateAs(bearer(s.Publisher.SecretKey), there), 410, "EXPIRED")
		},
	},
	{
		says: "If they differ by more than a minute, one can reject a client for its rate that the " +
			"other has just served.",
		tries: "an address that was served by an instance whose clock is two minutes ahead",
		gets:  "429 at the instance that is behind, until its clock has reached that time",
		do: func(t *testing.T) {
			s := newService(t, nil)
			ahead := s.sharing(s.Keyring)
			ahead.Pause(2 * time.Minute)
			want(t, ahead.startAs(bearer(s.Publisher.SecretKey), nil), 200, "")
			want(t, s.TryStart(nil), 429, "RATE_LIMITED")
			s.Pause(2 * time.Minute)
			want(t, s.TryStart(nil), 200, "")
		},
	},
	{
		tries: "a token twice at instances whose clocks differ",
		gets:  "one 200 at most",
		proof: []string{"testharness/invariants:TestI1HoldsWhereClocksDiffer"},
	},
}}

var person = foothold{"The person in front of the browser", []row{
	{
		says: "Anyone who has the link of a session that has not ended can act in it. The person " +
			"who comes back is the verified person only as far as the method ensures it.",
		tries: "to open a link in another browser and to complete it there",
		gets:  "the result of that session, at the publisher's callback",
		do: func(t *testing.T) {
			s := newService(t, nil)
			started := s.Start(nil)
			s.Open(started.RedirectURL)
			back := s.OpenWith(testharness.Headers("User-Agent", "another"),
				started.RedirectURL).Submit("approve").Callback
			if back == nil || back.SessionID != started.SessionID ||
				!strings.HasPrefix(back.URL, testharness.Callback) {
				t.Errorf("came back to %+v", back)
			}
		},
	},
}}

var filesReader = foothold{"A reader of Verge's files", []row{
	{
		says: "With `keyring_command` and `key_agent`, no file has the ring or a signing key. The ring is " +
			"in Verge's memory, and private keys are in the SSH agent.",
		tries: "to find the ring or a private key in the files of a running service",
		gets:  "the name of the program, and fingerprints of keys",
		proof: []string{"cmd/verge/internal/cli:TestServe_KeyringCommand",
			"cmd/verge/internal/cli:TestServe_KeysInAgent"},
	},
	{
		says: "Someone who can run programs as Verge's user can still run `keyring_command`, and have " +
			"the agent sign while it runs. They cannot copy a key of the agent.",
		tries: "to copy a key of the agent",
		gets:  "signatures: the protocol of the agent returns no private key",
		proof: []string{"edge/signing:TestAgent_OpenSSH"},
	},
}}
