package webhook

import (
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

const testSecret = "whsec_only_for_tests"

var (
	testNow  = time.Date(2026, 11, 20, 22, 10, 0, 0, time.UTC)
	testBody = []byte(`{"type":"verification.started"}`)
)

// step returns the step at which err rejected, or 0 if it is nil.
func step(t *testing.T, err error) int {
	t.Helper()
	if err == nil {
		return 0
	}
	rejected, ok := errors.AsType[*VerifyError](err)
	if !ok {
		t.Fatalf("%v is a %T, want a *VerifyError", err, err)
	}
	return rejected.Step
}

type vector struct {
	Name      string              `json:"name"`
	Secret    string              `json:"secret"`
	Headers   map[string][]string `json:"headers"`
	Body      []byte              `json:"body_base64"`
	Now       int64               `json:"now"`
	Tolerance int64               `json:"tolerance_seconds"`
	Step      int                 `json:"step"`
}

func vectors(t testing.TB) []vector {
	t.Helper()
	raw, err := os.ReadFile("testdata/signature_vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		About   []string `json:"about"`
		Vectors []vector `json:"vectors"`
	}
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&file); err != nil {
		t.Fatal(err)
	}
	return file.Vectors
}

// An implementation of HMAC other than Go's computed the vectors.
func TestVectors(t *testing.T) {
	seen := map[int]int{}
	for _, v := range vectors(t) {
		seen[v.Step]++
		t.Run(v.Name, func(t *testing.T) {
			err := Verify(v.Secret, v.Headers, v.Body, time.Unix(v.Now, 0),
				time.Duration(v.Tolerance)*time.Second)
			if got := step(t, err); got != v.Step {
				t.Fatalf("refused at step %d (%v), want %d", got, err, v.Step)
			}
			if err == nil {
				return
			}
			if v.Secret != "" && strings.Contains(err.Error(), v.Secret) {
				t.Errorf("the error shows the secret: %v", err)
			}
			want := Sign(v.Secret, time.Unix(v.Now, 0), v.Body)
			if strings.Contains(err.Error(), want[len(want)-64:]) {
				t.Errorf("the error shows the right HMAC: %v", err)
			}
		})
	}
	for _, n := range []int{0, 1, 2, 4, 5, 6} {
		if seen[n] == 0 {
			t.Errorf("no vector for step %d", n)
		}
	}
}

func TestSignVerify(t *testing.T) {
	signed := func() map[string][]string {
		h := map[string][]string{}
		for name, value := range Headers("evt_1", testNow, testBody, testSecret) {
			h[name] = []string{value}
		}
		return h
	}
	if err := Verify(testSecret, signed(), testBody, testNow, 0); err != nil {
		t.Fatalf("spec Signature: the result of Headers was rejected: %v", err)
	}

	lower := map[string][]string{}
	for name, value := range signed() {
		lower[strings.ToLower(name)] = value
	}
	if err := Verify(testSecret, lower, testBody, testNow, 0); err != nil {
		t.Errorf("a header name in another case: %v", err)
	}

	err := Verify(testSecret+"\n", signed(), testBody, testNow, 0)
	if got := step(t, err); got != 5 || !strings.Contains(err.Error(), "white space") {
		t.Errorf("a secret with a line break, as of a file: refused at step %d, %v", got, err)
	}

	both := signed()
	both["x-service-signature"] = both[HeaderSignature]
	if got := step(t, Verify(testSecret, both, testBody, testNow, 0)); got != 1 {
		t.Errorf("a header under two spellings is two headers: refused at step %d, want 1", got)
	}

	// A change of any bit of the body or the signature must be noticed.
	for i := range testBody {
		for bit := range 8 {
			body := append([]byte(nil), testBody...)
			body[i] ^= 1 << bit
			if got := step(t, Verify(testSecret, signed(), body, testNow, 0)); got != 5 {
				t.Fatalf("spec, Signature 5: bit %d of byte %d of the body altered: refused at step %d", bit,
					i, got)
			}
		}
	}
	good := Sign(testSecret, testNow, testBody)
	digits := good[len(good)-64:]
	for i := range digits {
		n, _ := strconv.ParseUint(digits[i:i+1], 16, 8)
		for bit := range 4 {
			h := signed()
			flipped := digits[:i] + strconv.FormatUint(n^1<<bit, 16) + digits[i+1:]
			h[HeaderSignature] = []string{good[:len(good)-64] + flipped}
			if got := step(t, Verify(testSecret, h, testBody, testNow, 0)); got != 5 {
				t.Fatalf("spec, Signature 5: bit %d of digit %d of v1 altered: refused at step %d", bit, i,
					got)
			}
		}
	}
}

func TestToleranceBounds(t *testing.T) {
	for _, tc := range []struct {
		rule      string
		now       time.Time
		tolerance time.Duration
		want      int
	}{
		{"spec, Signature 6: 300 s late is inside", testNow.Add(300 * time.Second), 0, 0},
		{"spec, Signature 6: whole seconds count", testNow.Add(300*time.Second + 999*time.Millisecond), 0, 0},
		{"spec, Signature 6: 301 s late is outside", testNow.Add(301 * time.Second), 0, 6},
		{"spec, Signature 6: 300 s early is inside", testNow.Add(-300 * time.Second), 0, 0},
		{"spec, Signature 6: 301 s early is outside", testNow.Add(-301 * time.Second), 0, 6},
		{"a negative tolerance is the default", testNow.Add(300 * time.Second), -time.Second, 0},
		{"a given tolerance is used", testNow.Add(11 * time.Second), 10 * time.Second, 6},
		{"a clock at the end of time does not wrap", time.Unix(1<<62, 0), 0, 6},
		{"a clock before 1970 does not wrap", time.Unix(-1<<62, 0), 0, 6},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			h := map[string][]string{HeaderSignature: {Sign(testSecret, testNow, testBody)}}
			err := Verify(testSecret, h, testBody, tc.now, tc.tolerance)
			if got := step(t, err); got != tc.want {
				t.Errorf("refused at step %d (%v), want %d", got, err, tc.want)
			}
		})
	}
}

func FuzzParseSignature(f *testing.F) {
	for _, v := range vectors(f) {
		for _, s := range v.Headers[HeaderSignature] {
			f.Add(s)
		}
	}
	f.Fuzz(func(t *testing.T, s string) {
		sig, err := parseSignature(s)
		if err != nil {
			if got := step(t, err); got != 1 {
				t.Fatalf("refused at step %d, want 1: %v", got, err)
			}
			return
		}
		if len(s) > maxSignature || len(sig.v1) != 32 || strconv.FormatInt(sig.t, 10) != sig.ts || sig.t < 0 {
			t.Fatalf("%q was accepted as %+v", s, sig)
		}
		if !strings.Contains(s, "t="+sig.ts) {
			t.Fatalf("%q does not hold t=%s", s, sig.ts)
		}
	})
}

func FuzzVerify(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(v.Secret, strings.Join(v.Headers[HeaderSignature], ","), v.Body, v.Now)
	}
	f.Fuzz(func(t *testing.T, secret, header string, body []byte, now int64) {
		at := time.Unix(now, 0)
		err := Verify(secret, map[string][]string{HeaderSignature: {header}}, body, at, 0)
		step(t, err)
		if err != nil {
			return
		}
		// If the request is accepted, our own signature at its t must be the same.
		sig, err := parseSignature(header)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseSignature(Sign(secret, time.Unix(sig.t, 0), body))
		if err != nil || string(again.v1) != string(sig.v1) {
			t.Fatalf("%q was accepted and is not what Sign makes", header)
		}
		if secret == "" {
			t.Fatal("an empty secret verified")
		}
	})
}
