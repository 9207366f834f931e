package session

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/keyring"
)

var update = flag.Bool("update", false, "rewrite testdata/ids.json")

const testUUID = "694069ac-4d4e-475f-906b-2f11c5eca7bd"

var testTime = time.Date(2026, 11, 20, 22, 10, 0, 123e6, time.UTC)

var testKeys = []token.Key{
	{ID: "9f02ab31", Secret: counting(32, 0x00)},
	{ID: "07c1d2e4", Secret: counting(32, 0x80)},
}

func counting(n int, from byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = from + byte(i)
	}
	return b
}

func ring(t testing.TB, keys ...token.Key) *token.Ring {
	t.Helper()
	r, err := token.NewRing("verify.verge.example", nil, keys...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func testID(t testing.TB) ID {
	t.Helper()
	id, err := NewID(bytes.NewReader(counting(12, 1)), testUUID, L2, 25,
		testTime.Add(456*time.Microsecond), 0xbeef)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestNewTest_NoSession(t *testing.T) {
	r := ring(t, testKeys...)
	id := testID(t)
	test, err := id.formatTest(r)
	if err != nil {
		t.Fatal(err)
	}
	if issued := format(t, id, testKeys...); len(test) != len(issued) || !strings.HasPrefix(test, Prefix) {
		t.Errorf("contract 14: %q does not have the form of an id such as %q", test, issued)
	}
	if _, err := ParseID(r, test); !errors.Is(err, ErrForged) {
		t.Errorf("contract 29: the id of a test has no session; ParseID returns %v", err)
	}
}

func format(t testing.TB, id ID, keys ...token.Key) string {
	t.Helper()
	text, err := id.Format(ring(t, keys...))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestIDRoundTrip(t *testing.T) {
	r := ring(t, testKeys...)
	base := testID(t)
	for _, c := range []struct {
		name   string
		change func(*ID)
	}{
		{"contract 14: as it is", func(*ID) {}},
		{"contract 14: level L1", func(id *ID) { id.Level = L1 }},
		{"contract 14: the lowest challenge age", func(id *ID) { id.ChallengeAge = 1 }},
		{"contract 14: the highest challenge age", func(id *ID) { id.ChallengeAge = 99 }},
		{"contract 14: the first partition", func(id *ID) { id.Partition = 0 }},
		{"contract 14: the last partition", func(id *ID) { id.Partition = 0xffff }},
		{"contract 14: created in 1970", func(id *ID) { id.Created = time.UnixMilli(0).UTC() }},
		{"contract 14: created as late as 48 bits go",
			func(id *ID) { id.Created = time.UnixMilli(1<<48 - 1).UTC() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := base
			c.change(&id)
			text, err := id.Format(r)
			if err != nil || !strings.HasPrefix(text, "svc_sess_") {
				t.Fatalf("id %q, %v", text, err)
			}
			if back, err := ParseID(r, text); err != nil || back != id {
				t.Errorf("%q came back as\n%+v, %v, want\n%+v", text, back, err, id)
			}
		})
	}
	if got := base.Created; !got.Equal(testTime) {
		t.Errorf("contract 2: created at %s, want whole milliseconds: %s", got, testTime)
	}
	if got := base.Expires().Sub(base.Created); got != 10*time.Minute {
		t.Errorf("spec, Limits: a session lives %s, want 10m", got)
	}
	if text, err := (ID{Integration: "int_" + testUUID}).Format(r); err == nil {
		t.Errorf("an integration that is no UUID gave %q", text)
	}
}

func TestNewID_Randomness(t *testing.T) {
	if id, err := NewID(bytes.NewReader(counting(11, 0)), testUUID, L1, 25, testTime, 0); err == nil {
		t.Errorf("from 11 random bytes: %+v", id)
	}
}

func TestID_Keys(t *testing.T) {
	id := testID(t)
	names := []string{id.Key().Name, id.UsedKey().Name, id.TimerID()}
	other := id
	other.Random[11]++
	for i, name := range []string{other.Key().Name, other.UsedKey().Name, other.TimerID()} {
		if name == names[i] || name[0] != names[i][0] {
			t.Errorf("two sessions keep things under %q and %q", name, names[i])
		}
	}
	if names[0] == names[1] {
		t.Errorf("outcome and used mark have the same name, %q", names[0])
	}
	for n := range 20 {
		if got := Partition(n).Name(); string(got) != "p"+strconv.Itoa(n) {
			t.Errorf("partition %d has the name %s", n, got)
		}
	}
	id.Partition = 7
	if id.Key().Partition != "p7" || id.UsedKey().Partition != "p7" || id.Partition.Name() != "p7" {
		t.Errorf("the items of a session in partition 7 are under %v and %v", id.Key(), id.UsedKey())
	}
}

// idVectors is testdata/ids.json.
type idVectors struct {
	Description []string        `json:"description"`
	Keys        []idKey         `json:"keys"`
	Valid       []validID       `json:"valid"`
	Malformed   []invalidVector `json:"malformed"`
	Forged      []invalidVector `json:"forged"`
}

type idKey struct {
	ID     string `json:"id"`
	Secret string `json:"secret"`
}

type validID struct {
	Integration  string `json:"integration"`
	Level        string `json:"level"`
	ChallengeAge int    `json:"challenge_age"`
	Created      int64  `json:"created"` // milliseconds since 1970
	Partition    uint16 `json:"partition"`
	Random       string `json:"random"` // hexadecimal
	Key          string `json:"key"`
	ID           string `json:"id"`
}

type invalidVector struct {
	Name string `json:"name"`
	ID   string `json:"id"`
}

var idDescription = []string{
	"Session ids of format version 1, for anyone who writes the format anew, in any language.",
	"keys is the ring; secret is base64url without padding. " +
		"created is in milliseconds since 1970, random in hexadecimal.",
	"valid: id is the text of the members above it, made with key, and opens with the ring. " +
		"malformed: no session id by its form. forged: the form is right, the MAC is not.",
	"Text: svc_sess_ and 79 characters of unpadded base64url whose unused bits are zero.",
	"Bytes: 0x01, integration (UUID, 16), level (1), challenge age (1), created (6, big endian), " +
		"partition (2, big endian), random (12), key id (4), tag (16).",
	"Tag: the first 16 bytes of HMAC-SHA256 of the 39 bytes in front of the key id. " +
		"Its key: HKDF-SHA256 of the secret, no salt, 32 bytes, info \"verge/v1/mac/session-id\".",
}

func makeIDVectors(t *testing.T) idVectors {
	f := idVectors{Description: idDescription}
	for _, k := range testKeys {
		f.Keys = append(f.Keys, idKey{k.ID, base64.RawURLEncoding.EncodeToString(k.Secret)})
	}
	first := testID(t)
	second := ID{
		Integration:  "00000000-0000-0000-0000-000000000000",
		Level:        L1,
		ChallengeAge: 18,
		Created:      time.UnixMilli(1795212600000).UTC(),
	}
	for n, id := range []ID{first, second, first} {
		key := testKeys[n/2]
		f.Valid = append(f.Valid, validID{id.Integration, id.Level.String(), id.ChallengeAge,
			id.Created.UnixMilli(), uint16(id.Partition), hex.EncodeToString(id.Random[:]), key.ID,
			format(t, id, key)})
	}

	right := format(t, first, testKeys...)
	malformed := func(name, id string) { f.Malformed = append(f.Malformed, invalidVector{name, id}) }
	malformed("empty", "")
	malformed("prefix alone", Prefix)
	malformed("no prefix", strings.TrimPrefix(right, Prefix))
	malformed("prefix in upper case", strings.ToUpper(Prefix)+right[len(Prefix):])
	malformed("prefix of a result token", token.ResultPrefix+right[len(Prefix):])
	malformed("a character too few", right[:len(right)-1])
	malformed("a character too many", right+"A")
	malformed("padded", right+"=")
	malformed("line feed for a character", right[:40]+"\n"+right[41:])
	malformed("line feed inside", right[:40]+"\n"+right[40:])
	malformed("space behind", right+" ")
	malformed("slash for a character", right[:40]+"/"+right[41:])
	malformed("plus for a character", right[:40]+"+"+right[41:])
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	malformed("unused bits set", right[:len(right)-1]+
		string(alphabet[strings.IndexByte(alphabet, right[len(right)-1])|1]))

	body, err := base64.RawURLEncoding.DecodeString(right[len(Prefix):])
	if err != nil {
		t.Fatal(err)
	}
	forged := func(name string, change func(b []byte)) {
		b := bytes.Clone(body)
		change(b)
		f.Forged = append(f.Forged, invalidVector{name, Prefix + base64.RawURLEncoding.EncodeToString(b)})
	}
	forged("another version", func(b []byte) { b[0] = 2 })
	forged("another integration", func(b []byte) { b[1] ^= 1 })
	forged("L1 made of L2", func(b []byte) { b[17] = 1 })
	forged("another challenge age", func(b []byte) { b[18] = 18 })
	forged("created later", func(b []byte) { b[24]++ })
	forged("another partition", func(b []byte) { b[26] ^= 1 })
	forged("another random part", func(b []byte) { b[38] ^= 1 })
	forged("another key of the ring", func(b []byte) { copy(b[39:], []byte{0x07, 0xc1, 0xd2, 0xe4}) })
	forged("a key that the ring has not", func(b []byte) { copy(b[39:], []byte{0, 0, 0, 0}) })
	forged("a bit of the tag", func(b []byte) { b[58] ^= 0x80 })
	forged("no tag", func(b []byte) { clear(b[43:]) })
	forged("nothing but zeros", func(b []byte) { clear(b) })
	forged("a right MAC for another purpose", func(b []byte) {
		mac, err := ring(t, testKeys...).MAC(token.Result, b[:39])
		if err != nil {
			t.Fatal(err)
		}
		copy(b[39:], mac)
	})
	forged("a right MAC of another version", func(b []byte) {
		b[0] = 2
		mac, err := ring(t, testKeys...).MAC(token.SessionID, b[:39])
		if err != nil {
			t.Fatal(err)
		}
		copy(b[39:], mac)
	})
	return f
}

const idPath = "testdata/ids.json"

func readIDVectors(t testing.TB) (f idVectors) {
	t.Helper()
	raw, err := os.ReadFile(idPath)
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestID_VectorsUnchanged(t *testing.T) {
	var want bytes.Buffer
	enc := json.NewEncoder(&want)
	enc.SetIndent("", " ")
	if err := enc.Encode(makeIDVectors(t)); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(idPath, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(idPath)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%s differs from the ids that this code creates. Every live session would be lost: "+
			"a new format needs a new version", idPath)
	}
}

func TestIDVectors(t *testing.T) {
	f := readIDVectors(t)
	var keys []token.Key
	for _, k := range f.Keys {
		secret, err := base64.RawURLEncoding.DecodeString(k.Secret)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, token.Key{ID: k.ID, Secret: secret})
	}
	r := ring(t, keys...)
	for _, v := range f.Valid {
		id, err := ParseID(r, v.ID)
		got := validID{id.Integration, id.Level.String(), id.ChallengeAge, id.Created.UnixMilli(),
			uint16(id.Partition), hex.EncodeToString(id.Random[:]), v.Key, v.ID}
		if err != nil || got != v {
			t.Errorf("contract 14: %s holds %+v, %v, want %+v", v.ID, got, err, v)
		}
	}
	for want, list := range map[error][]invalidVector{ErrMalformed: f.Malformed, ErrForged: f.Forged} {
		for _, v := range list {
			t.Run("contract 14: "+v.Name, func(t *testing.T) {
				if id, err := ParseID(r, v.ID); !errors.Is(err, want) || id != (ID{}) {
					t.Errorf("%q gives %+v, %v, want %v", v.ID, id, err, want)
				}
			})
		}
	}
}

func TestParseID_ChangedBits(t *testing.T) {
	r := ring(t, testKeys...)
	body, err := base64.RawURLEncoding.DecodeString(format(t, testID(t), testKeys...)[len(Prefix):])
	if err != nil {
		t.Fatal(err)
	}
	for at := range body {
		for bit := range 8 {
			b := bytes.Clone(body)
			b[at] ^= 1 << bit
			id, err := ParseID(r, Prefix+base64.RawURLEncoding.EncodeToString(b))
			if err != ErrForged || id != (ID{}) {
				t.Errorf("contract 14: with bit %d of byte %d flipped: %+v, %v", bit, at, id, err)
			}
		}
	}
}

func TestParseID_Rotation(t *testing.T) {
	old := format(t, testID(t), testKeys[1])
	if _, err := ParseID(ring(t, testKeys...), old); err != nil {
		t.Errorf("contract 16: an id of the replaced key: %v", err)
	}
	if _, err := ParseID(ring(t, testKeys[0]), old); err != ErrForged {
		t.Errorf("contract 16: an id of a retired key: %v, want ErrForged", err)
	}
}

func FuzzParseID(f *testing.F) {
	v := readIDVectors(f)
	for _, id := range v.Valid {
		f.Add(id.ID)
	}
	for _, list := range [][]invalidVector{v.Malformed, v.Forged} {
		for _, id := range list {
			f.Add(id.ID)
		}
	}
	r := ring(f, testKeys...)
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseID(r, s)
		if err != nil {
			if err != ErrMalformed && err != ErrForged || id != (ID{}) {
				t.Errorf("%q gives %+v, %v", s, id, err)
			}
			return
		}
		for _, k := range testKeys {
			if text, err := id.Format(ring(t, k)); err == nil && text == s {
				return
			}
		}
		t.Errorf("%q is accepted, but no key of the ring writes it", s)
	})
}

func TestParseLevel(t *testing.T) {
	for text, want := range map[string]Level{"L1": L1, "L2": L2} {
		if got, err := ParseLevel(text); err != nil || got != want || got.String() != text {
			t.Errorf("spec: level %s is read as %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "L0", "L3", "l1", "L1 ", "1"} {
		if got, err := ParseLevel(text); err == nil {
			t.Errorf("spec: %q is read as level %v", text, got)
		}
	}
}

// TestParseID_ReplacedKey: contract 16.
func TestParseID_ReplacedKey(t *testing.T) {
	replaced := testTime.Add(time.Hour)
	rotated := keyring.File{Keys: []token.RingKey{
		{Key: testKeys[0], SealsFrom: replaced}, {Key: testKeys[1], Replaced: replaced}}}
	later := func() time.Time { return replaced.Add(24 * time.Hour) }
	now, err := rotated.Ring("verify.verge.example", nil, later)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		at   time.Time
		want error
	}{
		{"contract 16: of before the replacement", replaced.Add(-time.Minute), nil},
		{"contract 16: within the clocks' margin", replaced.Add(host.ClockMargin), nil},
		{"contract 16: of after it", replaced.Add(host.ClockMargin + time.Millisecond), ErrForged},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := testID(t)
			id.Created = c.at
			if _, err := ParseID(now, format(t, id, testKeys[1])); !errors.Is(err, c.want) {
				t.Errorf("an id of a replaced key: %v, want %v", err, c.want)
			}
			if _, err := ParseID(now, format(t, id, testKeys[0])); err != nil {
				t.Errorf("an id of the active key: %v", err)
			}
		})
	}
}

// Contract 14: an id of another deployment with the same ring is rejected. An id from a key of an earlier
// release is still accepted.
func TestParseID_BoundToHost(t *testing.T) {
	for _, bound := range []bool{true, false} {
		keyring := keyring.File{Keys: []token.RingKey{{Key: testKeys[0], SealsFrom: testTime, Bound: bound}}}
		of := func(host string) *token.Ring {
			r, err := keyring.Ring(host, nil, func() time.Time { return testTime })
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		text, err := testID(t).Format(of("a.example"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseID(of("a.example"), text); err != nil {
			t.Errorf("contract 14, bound %v: on its own host: %v", bound, err)
		}
		if _, err := ParseID(of("b.example"), text); errors.Is(err, ErrForged) != bound {
			t.Errorf("contract 14, bound %v: on another host: %v", bound, err)
		}
	}
}
