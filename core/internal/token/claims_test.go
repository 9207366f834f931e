package token

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// FuzzFlowClaims compares the hand-written encoder with encoding/json, which reads the claims.
func FuzzFlowClaims(f *testing.F) {
	f.Add("svc_sess_AQ", []byte("https://shop.example/return"), []byte("q7"), true,
		[]byte("user-1"), true, "de", int64(1795212600000))
	f.Add("", []byte{}, []byte{}, true, []byte{}, true, "", int64(-1))
	f.Add("<\"\u2028\xff", []byte(nil), []byte(nil), false, []byte(nil), false, "", int64(0))
	f.Fuzz(func(t *testing.T, session string, callback, state []byte, hasState bool,
		user []byte, hasUser bool, language string, expires int64) {
		c := FlowClaims{session, callback, state, hasState, user, hasUser, language, Time(expires),
			user, hasUser}
		want, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.marshal(); !bytes.Equal(got, want) {
			t.Errorf("got %s, encoding/json writes %s", got, want)
		}
	})
}

// The length of a link is visible. It must reveal only its step.
func TestSealFlow_LengthSteps(t *testing.T) {
	ring := mustRing(t, vectorHost, vectorRing...)
	lengths := map[int]int{}
	for n := range 600 {
		c := FlowClaims{
			Session:  "svc_sess_AQ",
			Callback: []byte("https://shop.example/return"),
			Language: "de",
			Expires:  1795212600000,
		}
		user := strings.Repeat("u", n)
		c.SetUser(&user)
		text, err := SealFlow(ring, c)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := OpenFlow(ring, text)
		if err != nil {
			t.Fatalf("contract 15: a user id of %d bytes: %v", n, err)
		}
		same := *got.UserText() == user && string(got.Callback) == string(c.Callback) &&
			got.Language == "de" && got.Expires == c.Expires
		if !same {
			t.Fatalf("contract 15: a user id of %d bytes: %+v, %v", n, got, err)
		}
		lengths[len(text)]++
	}
	// 600 bytes are 800 bytes of base64, which are 13 steps.
	if len(lengths) < 13 || len(lengths) > 14 {
		t.Errorf("contract 15: user ids of 600 lengths have links of %d lengths, want 13 or 14", len(lengths))
	}
	for length, n := range lengths {
		if n > 49 {
			t.Errorf("contract 15: %d user ids have links of %d bytes, want at most 48 in a step", n, length)
		}
	}
	for n := 2; n < 200; n++ {
		object := append(bytes.Repeat([]byte(" "), n-1), '}')
		got := padded(bytes.Clone(object))
		if len(got)%paddedTo != 0 || len(got)-len(object) >= paddedTo || got[len(got)-1] != '}' {
			t.Errorf("%d bytes become %d", n, len(got))
		}
	}
}
