package api

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzMarshal compares the hand-written encoders with encoding/json.
func FuzzMarshal(f *testing.F) {
	f.Add("svc_sess_AQ", "https://verge.test/verify?flow=svc_ft_AQ", "2026-11-20T22:10:00.000Z", 25, true)
	f.Add("", "", "", 0, false)
	f.Add("<&>", "\"\\\u2029\xff", "\x00", -1, true)
	f.Fuzz(func(t *testing.T, a, b, c string, n int, yes bool) {
		verified := !yes
		for _, v := range []interface{ marshal() []byte }{
			startResponse{a, b, c},
			validateResponse{yes, verified, a, n, b, c, a},
			reconcileResponse{a, b, nil, nil, nil, c, n, nil, a, yes},
			reconcileResponse{a, b, &verified, &a, &b, c, n, &c, b, yes},
		} {
			want, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			if got := v.marshal(); !bytes.Equal(got, want) {
				t.Errorf("%T: %s, encoding/json writes %s", v, got, want)
			}
		}
	})
}
