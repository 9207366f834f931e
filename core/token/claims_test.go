package token

import (
	"bytes"
	"encoding/json"
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
