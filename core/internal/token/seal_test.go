package token

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/coretest"
)

var testClaims = []byte(`{"sid":"svc_sess_x","iat":1795212600000}`)

func mustSeal(t testing.TB, r *Ring, purpose string) []byte {
	t.Helper()
	sealed, err := r.Seal(purpose, testClaims)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func TestOpen_FlippedBits(t *testing.T) {
	ring := mustRing(t, vectorHost, vectorRing...)
	sealed := mustSeal(t, ring, Result)
	if claims, _, err := ring.Open(Result, sealed); err != nil || !bytes.Equal(claims, testClaims) {
		t.Fatalf("unaltered it opens as %s, %v", claims, err)
	}
	for at := range sealed {
		for bit := range 8 {
			altered := bytes.Clone(sealed)
			altered[at] ^= 1 << bit
			if claims, _, err := ring.Open(Result, altered); err != host.ErrNotAuthentic || claims != nil {
				t.Errorf("contract 15: with bit %d of byte %d flipped it opens as %q, %v", bit, at, claims,
					err)
			}
		}
	}
	for n := range sealed {
		if _, _, err := ring.Open(Result, sealed[:n]); err != host.ErrNotAuthentic {
			t.Errorf("contract 15: its first %d bytes: error %v", n, err)
		}
	}
	if _, _, err := ring.Open(Result, append(bytes.Clone(sealed), 0)); err != host.ErrNotAuthentic {
		t.Errorf("contract 15: with one byte more: error %v", err)
	}
}

func TestOpen_OtherPurpose(t *testing.T) {
	ring := mustRing(t, vectorHost, vectorRing...)
	for _, made := range purposes {
		sealed := mustSeal(t, ring, made)
		for _, asked := range append(slices.Clone(purposes), "", "flow2", "unknown") {
			_, _, err := ring.Open(asked, sealed)
			if made == asked && err != nil {
				t.Errorf("contract 15: sealed for %s, opened for the same: %v", made, err)
			}
			if made != asked && err != host.ErrNotAuthentic {
				t.Errorf("contract 15: sealed for %s, opened for %q: error %v", made, asked, err)
			}
		}
	}
	if _, err := ring.Seal("unknown", testClaims); err == nil {
		t.Error("Seal accepted an unknown purpose")
	}
}

func TestOpen_OtherHost(t *testing.T) {
	sealed := mustSeal(t, mustRing(t, "a.example", vectorRing...), Flow)
	for _, other := range []string{"b.example", "", "a.example.", "A.example", "a.example\x00"} {
		if _, _, err := mustRing(t, other, vectorRing...).Open(Flow, sealed); err != host.ErrNotAuthentic {
			t.Errorf("contract 15: sealed for a.example, opened for %q: error %v", other, err)
		}
	}
}

func TestRing_OldKey(t *testing.T) {
	before := mustRing(t, vectorHost, vectorRing[1])
	after := mustRing(t, vectorHost, vectorRing...)
	if _, _, err := after.Open(Result, mustSeal(t, before, Result)); err != nil {
		t.Errorf("contract 16: a token from before a rotation does not open after it: %v", err)
	}
	if _, _, err := before.Open(Result, mustSeal(t, after, Result)); err != host.ErrNotAuthentic {
		t.Errorf("contract 16: after a rotation the old key still seals: error %v", err)
	}
	mac, err := before.MAC(SessionID, []byte("m"))
	if err != nil || !isMAC(after, SessionID, []byte("m"), mac) {
		t.Errorf("contract 16: an id from before a rotation is rejected after it (%v)", err)
	}
}

// Instances look at the fleet's keys every few seconds, and deriving keys costs more than the rest of a look.
func TestRing_With(t *testing.T) {
	ring := mustRing(t, vectorHost, vectorRing...)
	want, err := ring.MAC(SessionID, []byte("m"))
	coretest.Must(t, err)
	same := []RingKey{{Key: vectorRing[0]}}
	impostor := []RingKey{{Key: Key{ID: vectorRing[0].ID, Secret: bytes.Repeat([]byte{7}, SecretSize)}}}
	bound := []RingKey{{Key: vectorRing[0], Bound: true}}
	for _, c := range []struct {
		name  string
		keys  []RingKey
		equal bool
	}{
		{"the same key", same, true},
		{"another secret", impostor, false},
		{"bound to the host", bound, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			other, err := ring.With(c.keys)
			coretest.Must(t, err)
			got, err := other.MAC(SessionID, []byte("m"))
			coretest.Must(t, err)
			if bytes.Equal(got, want) != c.equal {
				t.Errorf("the MAC is %x, and %x of the ring before", got, want)
			}
			allocated := testing.AllocsPerRun(10, func() {
				again, err := other.With(c.keys)
				coretest.Must(t, err)
				_, err = again.MAC(SessionID, []byte("m"))
				coretest.Must(t, err)
			})
			if allocated > 10 {
				t.Errorf("the same keys again: %g allocations, so they were derived again", allocated)
			}
		})
	}
}

func TestSeal_DistinctTokens(t *testing.T) {
	ring := mustRing(t, vectorHost, vectorRing...)
	if bytes.Equal(mustSeal(t, ring, Result), mustSeal(t, ring, Result)) {
		t.Error("a nonce was used twice")
	}
	broken, err := NewRing(vectorHost, failingReader{}, vectorRing...)
	if err != nil {
		t.Fatal(err)
	}
	if sealed, err := broken.Seal(Result, testClaims); err == nil {
		t.Errorf("without randomness %d bytes were sealed", len(sealed))
	}
}

type failingReader struct{}

func (failingReader) Read(p []byte) (int, error) { return len(p) / 2, errors.New("no randomness") }

func TestSeal_TooLarge(t *testing.T) {
	ring := mustRing(t, vectorHost, vectorRing...)
	long := []byte(`{"s":"` + strings.Repeat("x", 0x10000) + `"}`)
	if _, err := ring.Seal(Replay, long); err == nil {
		t.Error("claims whose length does not fit into 16 bits were sealed")
	}
	fits := []byte(`{"s":"` + strings.Repeat("x", 0xff00) + `"}`)
	sealed, err := ring.Seal(Replay, fits)
	if err != nil {
		t.Fatal(err)
	}
	if claims, _, err := ring.Open(Replay, sealed); err != nil || !bytes.Equal(claims, fits) {
		t.Errorf("claims of %d bytes came back as %d bytes, %v", len(fits), len(claims), err)
	}
}

func TestMAC(t *testing.T) {
	ring := mustRing(t, vectorHost, vectorRing...)
	message := []byte("a message")
	mac, err := ring.MAC(SessionID, message)
	if err != nil || len(mac) != host.MACSize {
		t.Fatalf("MAC: %d bytes, %v", len(mac), err)
	}
	again, err := ring.MAC(SessionID, message)
	if err != nil || !bytes.Equal(mac, again) {
		t.Errorf("the same message has two MACs (%v)", err)
	}
	if !isMAC(ring, SessionID, message, mac) {
		t.Error("its own MAC is rejected")
	}
	for at := range mac {
		for bit := range 8 {
			altered := bytes.Clone(mac)
			altered[at] ^= 1 << bit
			if isMAC(ring, SessionID, message, altered) {
				t.Errorf("contract 14: bit %d of byte %d flipped and accepted", bit, at)
			}
		}
	}
	for n := range mac {
		if isMAC(ring, SessionID, message, mac[:n]) {
			t.Errorf("contract 14: the first %d bytes of a MAC are accepted", n)
		}
	}
	if isMAC(ring, SessionID, message, append(bytes.Clone(mac), 0)) || isMAC(ring, SessionID, message, nil) {
		t.Error("a MAC of another length is accepted")
	}
	if isMAC(ring, SessionID, []byte("a messagf"), mac) {
		t.Error("another message's MAC is accepted")
	}
	for _, other := range append(slices.Clone(purposes), "unknown") {
		if other != SessionID && isMAC(ring, other, message, mac) {
			t.Errorf("contract 14: a MAC of session ids is accepted for %s", other)
		}
	}
	if _, err := ring.MAC("unknown", message); err == nil {
		t.Error("MAC accepted an unknown purpose")
	}
	// The MAC has the key id of one key and the tag of another.
	if isMAC(ring, SessionID, message, append([]byte{0x07, 0xc1, 0xd2, 0xe4}, mac[4:]...)) {
		t.Error("a tag is accepted under another key's id")
	}
}

func TestNewRing_Errors(t *testing.T) {
	k := vectorRing[0]
	for _, c := range []struct {
		name string
		keys []Key
		want string
	}{
		{"contract 16: no key", nil, "empty"},
		{"contract 16: one id twice", []Key{k, {ID: k.ID, Secret: counting(32, 9)}}, "twice"},
		{"contract 16: a short secret", []Key{{ID: k.ID, Secret: k.Secret[:31]}}, "31 bytes"},
		{"contract 16: a long secret", []Key{{ID: k.ID, Secret: counting(33, 0)}}, "33 bytes"},
		{"contract 16: an id in upper case", []Key{{ID: "9F02AB31", Secret: k.Secret}}, "lower-case"},
		{"contract 16: a short id", []Key{{ID: "9f02ab", Secret: k.Secret}}, "8 lower-case"},
		{"contract 16: no id", []Key{{Secret: k.Secret}}, "8 lower-case"},
		{"contract 16: an id that is not hexadecimal", []Key{{ID: "9f02ab3x", Secret: k.Secret}},
			"8 lower-case"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := NewRing(vectorHost, &coretest.Random{}, c.keys...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that says %q", err, c.want)
			}
		})
	}
}

func TestNewRing_ErrorsWithoutSecret(t *testing.T) {
	secret := base64.RawURLEncoding.EncodeToString(vectorRing[0].Secret)
	for _, k := range []Key{
		{ID: secret, Secret: vectorRing[0].Secret},
		{ID: "9f02ab31", Secret: []byte(secret)},
	} {
		_, err := NewRing(vectorHost, nil, k)
		if err == nil {
			t.Fatalf("contract 13: the ring accepted the key %v", k)
		}
		if strings.Contains(err.Error(), secret[:20]) || strings.Contains(err.Error(), fmt.Sprint(k.Secret)) {
			t.Errorf("contract 13: error %v", err)
		}
	}
}

func TestTypedTokens(t *testing.T) {
	ring := mustRing(t, vectorHost, vectorRing...)
	state, empty := "ü & \u0000", ""
	for _, given := range []*string{nil, &empty, &state} {
		c := FlowClaims{
			Session:  "s",
			Callback: []byte("https://a.example/?q=<&>"),
			Language: "fr",
			Expires:  1795212600123,
		}
		c.SetState(given)
		c.SetUser(given)
		text, err := SealFlow(ring, c)
		if err != nil || !strings.HasPrefix(text, FlowPrefix) {
			t.Fatalf("flow token %q, %v", text, err)
		}
		got, _, err := OpenFlow(ring, text)
		same := got.Session == c.Session && string(got.Callback) == string(c.Callback) &&
			got.Language == "fr" && got.Expires == c.Expires
		if err != nil || !same {
			t.Errorf("flow claims came back as %+v, %v", got, err)
		}
		for name, back := range map[string]*string{"state": got.StateText(), "user": got.UserText()} {
			if (back == nil) != (given == nil) || back != nil && *back != *given {
				t.Errorf("contract 8: %s %v came back as %v: empty differs from absent", name,
					given, back)
			}
		}
		// The prefix names the kind. The purpose must match as well.
		body := strings.TrimPrefix(text, FlowPrefix)
		if _, err := OpenStep(ring, StepPrefix+body); err != host.ErrNotAuthentic {
			t.Errorf("contract 15: a flow token opens as a provider token: %v", err)
		}
		if _, err := OpenResult(ring, ResultPrefix+body); err != host.ErrNotAuthentic {
			t.Errorf("contract 15: a flow token opens as a result token: %v", err)
		}
	}
	text, err := SealStep(ring, StepClaims{Session: "s", State: []byte{0, 255}, Issued: 1})
	if err != nil {
		t.Fatal(err)
	}
	c, err := OpenStep(ring, text)
	if err != nil || c.Session != "s" || !bytes.Equal(c.State, []byte{0, 255}) || c.Issued != 1 {
		t.Errorf("provider claims came back as %+v, %v", c, err)
	}
	sealed, err := ring.Seal(Result, []byte(`{"sid":5}`))
	if err != nil {
		t.Fatal(err)
	}
	result, err := OpenResult(ring, EncodeText(ResultPrefix, sealed))
	if err != host.ErrNotAuthentic || result != (ResultClaims{}) {
		t.Errorf("claims of another shape open as %+v, %v", result, err)
	}
}

func TestResultClaims_Expires(t *testing.T) {
	c := ResultClaims{Completed: 1795212600123}
	if got := c.Expires().Sub(c.Completed.Time()).String(); got != "5m0s" {
		t.Errorf("spec, Limits: a result token lives %s, want 5m0s", got)
	}
}

func TestDecodeText_OneText(t *testing.T) {
	const p = ResultPrefix
	for _, c := range []struct {
		name, text string
		ok         bool
	}{
		{"contract 15: no byte", p, true},
		{"contract 15: one byte", p + "AA", true},
		{"contract 15: three bytes", p + "AAAA", true},
		{"contract 15: unused bits set", p + "AB", false},
		{"contract 15: one character too many", p + "AAAAA", false},
		{"contract 15: padding", p + "AA==", false},
		{"contract 15: line feed", p + "AA\nAA", false},
		{"contract 15: carriage return", p + "AAAA\r", false},
		{"contract 15: space", p + "AA AA", false},
		{"contract 15: standard alphabet", p + "+/+/", false},
		{"contract 15: wrong prefix", FlowPrefix + "AAAA", false},
		{"contract 15: prefix in upper case", strings.ToUpper(p) + "AAAA", false},
		{"contract 15: the maximum length", p + strings.Repeat("A", maxText-len(p)-maxText%4-1), true},
		{"contract 15: too long", p + strings.Repeat("A", maxText), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, ok := DecodeText(p, c.text); ok != c.ok {
				t.Errorf("decodes: %v, want %v", ok, c.ok)
			}
		})
	}
}

func FuzzDecodeText(f *testing.F) {
	for _, s := range []string{
		"",
		"svc_rt_",
		"svc_rt_AA",
		"svc_rt_AB",
		"svc_rt_AA==",
		"svc_rt_A\nA",
		"svc_rt_-_-_",
		"svc_rt_+/",
		"svc_ft_AA",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b, ok := DecodeText(ResultPrefix, s)
		if ok && EncodeText(ResultPrefix, b) != s {
			t.Errorf("%q decodes to %x, whose text is %q: one token has two texts", s, b,
				EncodeText(ResultPrefix, b))
		}
	})
}

// FuzzOpen opens the bytes as a sealed token, and as the content of an envelope.
func FuzzOpen(f *testing.F) {
	vectors := readVectors(f)
	for _, v := range vectors.Valid {
		b, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(v.Token, v.Prefix))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{0, 2, '{', '}', 0, 2, '{', '}'})
	f.Add([]byte{0xff, 0xff, 0, 0})
	ring := mustRing(f, "fuzz.example", vectorRing...)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, purpose := range purposes {
			if claims, _, err := ring.Open(purpose, b); err != host.ErrNotAuthentic || claims != nil {
				t.Errorf("bytes that were not sealed for this host open for %s as %q, %v", purpose, claims,
					err)
			}
		}
		c := good(Result)
		c.host = "fuzz.example"
		c.packed = func([]byte) []byte { return b }
		if claims, _, err := ring.Open(Result, c.bytes()); err != host.ErrNotAuthentic || claims != nil {
			t.Errorf("an envelope around %x opens as %q, %v", b, claims, err)
		}
		if header, claims, signature, ok := unpack(b); ok {
			if again := append(pack(nil, header, claims), signature...); !bytes.Equal(again, b) {
				t.Errorf("%x unpacks to %q, %q, %x, which packs to %x", b, header, claims, signature, again)
			}
		}
	})
}

func isMAC(r *Ring, purpose string, message, mac []byte) bool {
	_, err := r.CheckMAC(purpose, message, mac)
	return err == nil
}
