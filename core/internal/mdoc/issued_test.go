package mdoc

import (
	"encoding/binary"
	"errors"
	"testing"
)

// A signature that was good is not checked again, and nothing else is taken for it.
func TestIssuedRemembersOnlyWhatWasGood(t *testing.T) {
	var s Issued
	asked := 0
	says := func(verdict bool, err error) func() (bool, error) {
		return func() (bool, error) { asked++; return verdict, err }
	}
	away := errors.New("away")
	for _, c := range []struct {
		rule             string
		key, certificate string
		verdict, want    bool
		err              error
		asks             int
	}{
		{"an error is returned", "key", "certificate", false, false, away, 1},
		{"a verdict with an error is an error", "key", "certificate", true, false, away, 1},
		{"a bad signature is rejected", "key", "certificate", false, false, nil, 1},
		{"a bad signature is checked again", "key", "certificate", false, false, nil, 1},
		{"a good signature is accepted", "key", "certificate", true, true, nil, 1},
		{"a good signature is not checked again", "key", "certificate", false, true, nil, 0},
		{"another certificate is checked", "key", "certificatf", false, false, nil, 1},
		{"another key is checked", "kez", "certificate", false, false, nil, 1},
		{"a border that has moved is another pair", "keyc", "ertificate", false, false, nil, 1},
	} {
		t.Run(c.rule, func(t *testing.T) {
			before := asked
			got, err := s.once([]byte(c.key), []byte(c.certificate), says(c.verdict, c.err))
			if got != c.want || err != c.err || asked-before != c.asks {
				t.Errorf("%v, %v after %d checks, want %v after %d", got, err, asked-before, c.want, c.asks)
			}
		})
	}
	for n := range uint32(3 * maxIssued) {
		certificate := binary.BigEndian.AppendUint32(nil, n)
		if ok, err := s.once([]byte("key"), certificate, says(true, nil)); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if len(s.good) > maxIssued {
			t.Fatalf("%d certificates are kept, want at most %d", len(s.good), maxIssued)
		}
	}
}
