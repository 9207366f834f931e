package token

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// FuzzFlowClaims holds what is written by hand against encoding/json, which reads it.
func FuzzFlowClaims(f *testing.F) {
	f.Add("svc_sess_AQ", []byte("https://shop.example/return"), []byte("q7"), true, []byte("user-1"), true, "de", int64(1795212600000))
	f.Add("", []byte{}, []byte{}, true, []byte{}, true, "", int64(-1))
	f.Add("<\"\u2028\xff", []byte(nil), []byte(nil), false, []byte(nil), false, "", int64(0))
	f.Fuzz(func(t *testing.T, session string, callback, state []byte, hasState bool, user []byte, hasUser bool, language string, expires int64) {
		c := FlowClaims{session, callback, state, hasState, user, hasUser, language, Time(expires)}
		want, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.marshal(); !bytes.Equal(got, want) {
			t.Errorf("%s, encoding/json writes %s", got, want)
		}
	})
}

// The length of a link is no secret: what it tells is that of its step.
func TestFlowTokensGrowInSteps(t *testing.T) {
	ring := mustRing(t, vectorHost, vectorRing...)
	lengths := map[int]int{}
	for n := range 600 {
		c := FlowClaims{Session: "svc_sess_AQ", Callback: []byte("https://shop.example/return"), Language: "de", Expires: 1795212600000}
		user := strings.Repeat("u", n)
		c.SetUser(&user)
		text, err := SealFlow(ring, c)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := OpenFlow(ring, text)
		if err != nil || *got.UserText() != user || string(got.Callback) != string(c.Callback) || got.Language != "de" || got.Expires != c.Expires {
			t.Fatalf("contract 15: a user id of %d bytes: %+v, %v", n, got, err)
		}
		lengths[len(text)]++
	}
	// 600 bytes are 800 of base64, and those 13 steps.
	if len(lengths) < 13 || len(lengths) > 14 {
		t.Errorf("contract 15: user ids of 600 lengths have links of %d lengths", len(lengths))
	}
	for length, n := range lengths {
		if n > 49 {
			t.Errorf("contract 15: %d user ids have links of %d bytes: a step is 48", n, length)
		}
	}
	for n := 2; n < 200; n++ {
		object := append(bytes.Repeat([]byte(" "), n-1), '}')
		if got := padded(bytes.Clone(object)); len(got)%paddedTo != 0 || len(got)-len(object) >= paddedTo || got[len(got)-1] != '}' {
			t.Errorf("%d bytes become %d", n, len(got))
		}
	}
}
