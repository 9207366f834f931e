package mdoc

import (
	"encoding/binary"
	"testing"
)

// A signature that was good is not checked again, and nothing else is taken for it.
func TestIssuedRemembersOnlyWhatWasGood(t *testing.T) {
	var s signatures
	asked := 0
	says := func(verdict bool) func() bool {
		return func() bool { asked++; return verdict }
	}
	for _, c := range []struct {
		rule             string
		key, certificate string
		verdict, want    bool
		asks             int
	}{
		{"a bad signature is refused", "key", "certificate", false, false, 1},
		{"a bad signature is checked again", "key", "certificate", false, false, 1},
		{"a good signature is accepted", "key", "certificate", true, true, 1},
		{"a good signature is not checked again", "key", "certificate", false, true, 0},
		{"another certificate is checked", "key", "certificatf", false, false, 1},
		{"another key is checked", "kez", "certificate", false, false, 1},
		{"a border that has moved is another pair", "keyc", "ertificate", false, false, 1},
	} {
		t.Run(c.rule, func(t *testing.T) {
			before := asked
			got := s.once([]byte(c.key), []byte(c.certificate), says(c.verdict))
			if got != c.want || asked-before != c.asks {
				t.Errorf("%v after %d checks, want %v after %d", got, asked-before, c.want, c.asks)
			}
		})
	}
	for n := range uint32(3 * maxIssued) {
		s.once([]byte("key"), binary.BigEndian.AppendUint32(nil, n), says(true))
		if len(s.good) > maxIssued {
			t.Fatalf("%d certificates are kept, want at most %d", len(s.good), maxIssued)
		}
	}
}
