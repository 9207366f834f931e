package webhook

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// standardSecret and otherSecret have the form of Standard Webhooks.
var (
	standardSecret = "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 32))
	otherSecret    = "whsec_" + base64.StdEncoding.EncodeToString(append(make([]byte, 31), 1))
)

func asHeader(from map[string]string) map[string][]string {
	header := map[string][]string{}
	for name, value := range from {
		header[name] = []string{value}
	}
	return header
}

// Python computed the vectors. testharness/clients verifies them with the libraries of Standard Webhooks.
func TestStandardVectors(t *testing.T) {
	raw, err := os.ReadFile("testdata/standard_vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Vectors []struct {
			Name     string
			Secret   string
			Headers  map[string]string
			Body     []byte `json:"body_base64"`
			Now      int64
			Accepted bool
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Vectors) < 30 {
		t.Fatalf("only %d vectors", len(file.Vectors))
	}
	for _, v := range file.Vectors {
		err := Verify(v.Secret, asHeader(v.Headers), v.Body, time.Unix(v.Now, 0), 0)
		if (err == nil) != v.Accepted {
			t.Errorf("contract 51: %s: %v", v.Name, err)
		}
		if err != nil && strings.Contains(err.Error(), v.Secret) {
			t.Errorf("contract 13: %s: the error contains the secret: %v", v.Name, err)
		}
		var event Event
		if json.Unmarshal(v.Body, &event) != nil || !v.Accepted || v.Now != 1795212600 ||
			strings.Contains(v.Headers["webhook-signature"], " ") {
			continue
		}
		sent := Headers(event.ID, time.Unix(v.Now, 0), v.Body, v.Secret)
		for name, want := range v.Headers {
			if got := values(asHeader(sent), name); !slices.Equal(got, []string{want}) {
				t.Errorf("contract 51: %s: %s is %q, want %s", v.Name, name, got, want)
			}
		}
	}
}

func TestStandardKey_Form(t *testing.T) {
	good := strings.TrimPrefix(standardSecret, "whsec_")
	for _, c := range []struct {
		rule, secret string
		want         bool
	}{
		{"contract 51: whsec_ and 32 bytes", standardSecret, true},
		{"contract 51: no prefix", good, false},
		{"contract 51: another prefix", "WHSEC_" + good, false},
		{"contract 51: 31 bytes", "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 31)), false},
		{"contract 51: 33 bytes", "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 33)), false},
		{"contract 51: no padding", "whsec_" + strings.TrimRight(good, "="), false},
		{"contract 51: bits after the end", "whsec_" + good[:42] + "B=", false},
		{"contract 51: the alphabet of URLs", "whsec_-_" + good[2:], false},
		{"contract 51: a line end among the digits", "whsec_\n" + good[1:], false},
		{"contract 51: hexadecimal", "whsec_" + strings.Repeat("0a", 32), false},
		{"contract 51: words", "whsec_only_for_tests", false},
		{"contract 51: empty", "", false},
	} {
		if _, ok := standardKey(c.secret); ok != c.want {
			t.Errorf("%s: %v, want %v", c.rule, ok, c.want)
		}
	}
}

func TestHeaders_Secrets(t *testing.T) {
	const free = "a secret of another form"
	signature := func(secret string) string {
		return Headers("evt_1", testNow, testBody, secret)[headerStandardSignature]
	}
	for _, c := range []struct {
		rule, active, staged string
		want                 []string
	}{
		{"contract 51: one secret signs", standardSecret, "", []string{standardSecret}},
		{"contract 51: another form has no headers", free, "", nil},
		{"contract 51: a staged change has both", standardSecret, otherSecret,
			[]string{standardSecret, otherSecret}},
		{"contract 51: a staged address alone has one", standardSecret, standardSecret,
			[]string{standardSecret}},
		{"contract 51: only the staged one has the form", free, otherSecret, []string{otherSecret}},
		{"contract 51: only the active one has the form", standardSecret, free, []string{standardSecret}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			header := Headers("evt_1", testNow, testBody, c.active, c.staged)
			var want []string
			for _, secret := range c.want {
				want = append(want, signature(secret))
			}
			if got := header[headerStandardSignature]; got != strings.Join(want, " ") {
				t.Errorf("webhook-signature is %q, want %q", got, want)
			}
			if _, ok := header[headerStandardID]; ok != (want != nil) {
				t.Errorf("webhook-id is present: %v", ok)
			}
			if header[HeaderSignature] != Sign(c.active, testNow, testBody) {
				t.Error("contract 25: the active secret does not sign X-Service-Signature")
			}
			if err := Verify(c.active, asHeader(header), testBody, testNow, 0); err != nil {
				t.Errorf("contract 25: the active secret: %v", err)
			}
		})
	}
}

func TestVerify_StandardHeaders(t *testing.T) {
	for _, c := range []struct {
		rule   string
		change func(map[string][]string)
		want   int
	}{
		{"none of them is present", func(h map[string][]string) {
			delete(h, headerStandardID)
			delete(h, headerStandardTimestamp)
			delete(h, headerStandardSignature)
		}, 0},
		{"the names have the spelling of net/http", func(h map[string][]string) {
			h["Webhook-Id"] = h[headerStandardID]
			delete(h, headerStandardID)
		}, 0},
		{"one is missing", func(h map[string][]string) { delete(h, headerStandardID) }, 1},
		{"one is empty", func(h map[string][]string) { h[headerStandardSignature] = []string{""} }, 1},
		{"one occurs twice", func(h map[string][]string) {
			h[headerStandardTimestamp] = append(h[headerStandardTimestamp], h[headerStandardTimestamp]...)
		}, 1},
		{"one is too long", func(h map[string][]string) {
			h[headerStandardID] = []string{strings.Repeat("e", maxStandardID+1)}
		}, 1},
		{"the signatures are too long", func(h map[string][]string) {
			h[headerStandardSignature][0] += strings.Repeat(" v2,x", maxSignature/5)
		}, 1},
		{"the timestamp is not t", func(h map[string][]string) {
			h[headerStandardTimestamp] = []string{"1795212601"}
		}, 2},
		{"the id is another", func(h map[string][]string) { h[headerStandardID] = []string{"evt_2"} }, 5},
	} {
		header := asHeader(Headers("evt_1", testNow, testBody, standardSecret))
		c.change(header)
		if got := step(t, Verify(standardSecret, header, testBody, testNow, 0)); got != c.want {
			t.Errorf("contract 51: %s: rejected at step %d, want %d", c.rule, got, c.want)
		}
	}
}

// standardReceiver is a receiver that checks by Standard Webhooks alone, and lacks one check.
func standardReceiver(p Probe, without string) int {
	id, ts, body := p.Header[headerStandardID], p.Header[headerStandardTimestamp], p.Body
	at, ok := parseTimestamp(ts)
	if !ok || id == "" {
		return 401
	}
	if age := testNow.Unix() - at; without != "the tolerance" && (age > 300 || age < -300) {
		return 401
	}
	if without == "the raw body" {
		body = []byte(strings.TrimSpace(string(body)))
	}
	key, _ := standardKey(standardSecret)
	want, got := standardSignature(key, id, ts, body), p.Header[headerStandardSignature]
	if without == "the tail of the comparison" {
		want, got = want[:40], got[:min(40, len(got))]
	}
	if got != want && without != "the comparison" {
		return 401
	}
	return 204
}

func TestReadiness_StandardWebhooks(t *testing.T) {
	event := ReadinessEvent(testHead)
	for _, c := range []struct {
		rule, without string
		failing       []string
	}{
		{"contract 51: a receiver with every check is ready", "", nil},
		{"contract 51: bad signature", "the comparison",
			[]string{ProbeBadSignature, ProbeDifferingTimestamp, ProbeAlteredBody}},
		{"contract 51: bad signature, found by its last digit", "the tail of the comparison",
			[]string{ProbeBadSignature}},
		{"contract 51: stale timestamp", "the tolerance", []string{ProbeStaleTimestamp}},
		{"contract 51: altered body", "the raw body", []string{ProbeAlteredBody}},
	} {
		var results []ProbeResult
		for _, p := range Probes(standardSecret, event, testNow) {
			results = append(results, ProbeResult{Name: p.Name, Status: standardReceiver(p, c.without)})
			err := Verify(standardSecret, asHeader(p.Header), p.Body, testNow, 0)
			if (err == nil) != (p.Name == ProbeGood) {
				t.Errorf("contract 51: Verify of %s: %v", p.Name, err)
			}
		}
		_, reasons := Judge(results)
		var failing []string
		for _, r := range reasons {
			name, _, _ := strings.Cut(r, ":")
			failing = append(failing, name)
		}
		if !slices.Equal(failing, c.failing) {
			t.Errorf("%s: failing are %q, want %q", c.rule, failing, c.failing)
		}
	}
}

func FuzzParseStandard(f *testing.F) {
	good := Headers("evt_1", testNow, testBody, standardSecret)
	f.Add(good[headerStandardID], good[headerStandardTimestamp], good[headerStandardSignature])
	f.Add("", "1795212600", "v1, v1,=")
	f.Fuzz(func(t *testing.T, id, ts, signature string) {
		header := map[string][]string{headerStandardID: {id}, headerStandardTimestamp: {ts},
			headerStandardSignature: {signature}}
		s, err := parseStandard(standardSecret, header)
		var rejected *VerifyError
		if err != nil && (!errors.As(err, &rejected) || rejected.Step != 1) {
			t.Fatalf("%v, want step 1", err)
		}
		if err != nil || !s.matches(testBody) {
			return
		}
		key, _ := standardKey(standardSecret)
		if !strings.Contains(signature, standardSignature(key, id, ts, testBody)) {
			t.Fatalf("%q was accepted", signature)
		}
	})
}
