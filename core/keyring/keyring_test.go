package keyring

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/token"
)

var ringTime = time.Date(2026, 11, 20, 22, 10, 0, 0, time.UTC)

const hostName = "verify.verge.example"

func mustSeal(t testing.TB, r host.Sealer) []byte {
	t.Helper()
	sealed, err := r.Seal(token.Flow, []byte(`{"sid":"svc_sess_x","iat":1795212600000}`))
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func threeKeys(t testing.TB) File {
	t.Helper()
	random := &coretest.Random{}
	kr, err := Generate(random, ringTime)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n < 3; n++ {
		if err := kr.Rotate(random, ringTime.Add(time.Duration(n)*time.Hour), 0); err != nil {
			t.Fatal(err)
		}
	}
	return kr
}

func TestFile_RoundTrip(t *testing.T) {
	kr := threeKeys(t)
	b, err := kr.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	back, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back, kr) {
		t.Errorf("came back as\n%+v\nwant\n%+v", back, kr)
	}
	if !kr.Keys[0].Replaced.IsZero() || kr.Keys[1].Replaced.IsZero() || kr.Keys[2].Replaced.IsZero() {
		t.Error("contract 16: all keys except the first are replaced")
	}
}

func TestGenerate_Key(t *testing.T) {
	kr, err := Generate(&coretest.Random{}, ringTime)
	if err != nil || len(kr.Keys) != 1 {
		t.Fatalf("%d keys, %v", len(kr.Keys), err)
	}
	if _, err := kr.Ring(hostName, &coretest.Random{}, nil); err != nil {
		t.Error(err)
	}
	if kr, err := Generate(strings.NewReader("short"), ringTime); err == nil {
		t.Errorf("without randomness a ring of %d keys was created", len(kr.Keys))
	}
}

func TestRotate_OldTokens(t *testing.T) {
	random := &coretest.Random{}
	kr, err := Generate(random, ringTime)
	if err != nil {
		t.Fatal(err)
	}
	var sealed [][]byte
	for n := range 3 {
		ring, err := kr.Ring(hostName, random, nil)
		if err != nil {
			t.Fatal(err)
		}
		sealed = append(sealed, mustSeal(t, ring))
		for age, s := range sealed {
			if _, _, err := ring.Open(token.Flow, s); err != nil {
				t.Errorf("contract 16: after %d rotations, a token of the ring after %d does not open", n,
					age)
			}
		}
		if err := kr.Rotate(random, ringTime.Add(time.Duration(n+1)*time.Hour), 0); err != nil {
			t.Fatal(err)
		}
	}
	oldest := kr.Keys[len(kr.Keys)-1]
	if err := kr.Retire(oldest.ID, ringTime, time.Hour, true); err != nil {
		t.Fatal(err)
	}
	ring, err := kr.Ring(hostName, random, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := ring.Open(token.Flow, sealed[0]); err != host.ErrNotAuthentic {
		t.Errorf("contract 16: a retired key's token still opens: %v", err)
	}
	if _, _, err := ring.Open(token.Flow, sealed[1]); err != nil {
		t.Errorf("contract 16: retiring one key removed another: %v", err)
	}
}

func TestRetire(t *testing.T) {
	const life = 30 * 24 * time.Hour
	kr := threeKeys(t)
	first, second := kr.Keys[0].ID, kr.Keys[1].ID
	free := kr.Keys[1].Replaced.Add(life)
	if sealedUntil := ringTime.Add(2 * time.Hour); kr.Keys[1].Replaced.Before(sealedUntil) {
		t.Fatalf("contract 16: replaced at %s, though it sealed until %s", kr.Keys[1].Replaced, sealedUntil)
	}
	for _, c := range []struct {
		name  string
		id    string
		now   time.Time
		force bool
		want  string // part of the error; "" for none
	}{
		{"contract 16: a moment too early", second, free.Add(-time.Nanosecond), false, "until"},
		{"contract 16: at the boundary", second, free, false, ""},
		{"contract 16: later", second, free.Add(life), false, ""},
		{"contract 16: too early, forced", second, ringTime, true, ""},
		{"contract 16: the active key", first, free.Add(life), false, "rotate first"},
		{"contract 16: the active key, forced", first, ringTime, true, ""},
		{"contract 16: no such key", "00000000", free, true, "no key 00000000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			kr := threeKeys(t)
			err := kr.Retire(c.id, c.now, life, c.force)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v, want an error with %q", err, c.want)
				}
				if len(kr.Keys) != 3 {
					t.Errorf("refused, but %d keys are left", len(kr.Keys))
				}
				return
			}
			if err != nil || len(kr.Keys) != 2 {
				t.Fatalf("%d keys are left, %v", len(kr.Keys), err)
			}
			for i, k := range kr.Keys {
				if k.ID == c.id {
					t.Error("the retired key still exists")
				}
				if k.Replaced.IsZero() != (i == 0) {
					t.Errorf("key %d: replaced at %v; want only the first to seal", i, k.Replaced)
				}
			}
		})
	}
	only, err := Generate(&coretest.Random{}, ringTime)
	if err != nil {
		t.Fatal(err)
	}
	if err := only.Retire(only.Keys[0].ID, free, life, true); err == nil || len(only.Keys) != 1 {
		t.Errorf("contract 16: the only key was retired (%v)", err)
	}
}

// A key that was replaced in the middle of a second was active in that second.
func TestRotate_ReplacedTime(t *testing.T) {
	random := new(coretest.Random)
	kr, err := Generate(random, ringTime)
	if err != nil {
		t.Fatal(err)
	}
	now := ringTime.Add(time.Hour + 999*time.Millisecond)
	if err := kr.Rotate(random, now, 0); err != nil {
		t.Fatal(err)
	}
	if kr.Keys[1].Replaced.Before(now) {
		t.Errorf("contract 16: replaced at %s, sealed until %s", kr.Keys[1].Replaced, now)
	}
}

func TestParse_ByteOrderMark(t *testing.T) {
	f, err := Parse([]byte("\ufeff" + `{"version":1,"keys":[{"id":"9f02ab31",` +
		`"secret":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8","created":"2026-11-20T22:10:00Z"}]}`))
	if err != nil || len(f.Keys) != 1 {
		t.Errorf("contract 13: %v", err)
	}
}

func TestParse_Errors(t *testing.T) {
	const secret = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
	key := `{"id":"9f02ab31","secret":"` + secret + `","created":"2026-11-20T22:10:00Z"}`
	for _, c := range []struct{ name, file, want string }{
		{"contract 16: empty", "\n", "empty, not JSON; restore it"},
		{"contract 13: UTF-16", "\xff\xfe{\x00", "UTF-16"},
		{"contract 16: cut off", `{"version":1,"keys":[` + key, "not JSON"},
		{"contract 16: data behind", `{"version":1,"keys":[` + key + `]} x`, "not JSON"},
		{"contract 16: no version", `{"keys":[` + key + `]}`, "version 0"},
		{"contract 16: a later version", `{"version":2,"keys":[` + key + `]}`, "version 2"},
		{"contract 16: no keys", `{"version":1,"keys":[]}`, "no keys"},
		{"contract 16: an array", `[` + key + `]`, "form"},
		{"contract 16: a secret that is a number", `{"version":1,"keys":[{"id":"9f02ab31","secret":5}]}`, "form"},
		{
			"contract 16: an invalid time",
			`{"version":1,"keys":[{"id":"9f02ab31","secret":"` + secret + `","created":"` + secret + `"}]}`,
			"form",
		},
		{
			"contract 16: a short secret",
			`{"version":1,"keys":[{"id":"9f02ab31","secret":"` + secret[:40] + `"}]}`,
			"32 bytes",
		},
		{
			"contract 16: a padded secret",
			`{"version":1,"keys":[{"id":"9f02ab31","secret":"` + secret + `="}]}`,
			"32 bytes",
		},
		{
			"contract 16: a secret with unused bits",
			`{"version":1,"keys":[{"id":"9f02ab31","secret":"` + secret[:42] + `9"}]}`,
			"32 bytes",
		},
		{
			"contract 16: id and secret mixed up",
			`{"version":1,"keys":[{"secret":"9f02ab31","id":"` + secret + `"}]}`,
			"hexadecimal",
		},
		{
			"contract 16: an id in upper case",
			strings.Replace(`{"version":1,"keys":[`+key+`]}`, "9f02ab31", "9F02AB31", 1),
			"hexadecimal",
		},
		{
			"contract 16: a second key that was never replaced",
			`{"version":1,"keys":[` + key + `,` + key + `]}`,
			"replaced",
		},
		{
			"contract 16: a second key replaced at the zero time",
			`{"version":1,"keys":[` + key + `,` + strings.Replace(key, `}`,
				`,"replaced":"0001-01-01T00:00:00Z"}`, 1) + `]}`,
			"replaced",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse([]byte(c.file))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want an error with %q", err, c.want)
			}
			if strings.Contains(err.Error(), secret[:20]) {
				t.Errorf("contract 13: the error contains a secret: %v", err)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	b, err := threeKeys(f).Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"version":1,"keys":[]}`))
	f.Add([]byte(`{"version":1,"keys":[{"id":"9f02ab31",` +
		`"secret":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",` +
		`"created":"2026-11-20T22:10:00+01:00","replaced":"0001-01-01T00:00:00Z"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		kr, err := Parse(b)
		if err != nil {
			return
		}
		out, err := kr.Marshal()
		if err != nil {
			t.Fatalf("a ring that was read cannot be written: %v", err)
		}
		back, err := Parse(out)
		if err != nil {
			t.Fatalf("a ring that was written cannot be read: %v", err)
		}
		again, err := back.Marshal()
		if err != nil || string(again) != string(out) {
			t.Errorf("written twice it differs:\n%s\n%s\n%v", out, again, err)
		}
	})
}

// Contract 16. An attacker with a leaked and rotated ring can create only tokens that look older than the
// rotation.
func TestOpen_ReplacedKey(t *testing.T) {
	random := &coretest.Random{}
	ring, err := Generate(random, ringTime)
	if err != nil {
		t.Fatal(err)
	}
	leaked, err := ring.Ring(hostName, random, nil)
	if err != nil {
		t.Fatal(err)
	}
	replaced := ringTime.Add(24 * time.Hour)
	if err := ring.Rotate(random, replaced, 0); err != nil {
		t.Fatal(err)
	}
	later := func() time.Time { return replaced.Add(19 * 24 * time.Hour) }
	now, err := ring.Ring(hostName, random, later)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		at   time.Time
		want error
	}{
		{"contract 16: dated before the replacement", replaced.Add(-time.Minute), nil},
		{"contract 16: dated within the clocks' margin", replaced.Add(time.Second + host.ClockMargin), nil},
		{
			"contract 16: dated after it",
			replaced.Add(time.Second + host.ClockMargin + time.Millisecond),
			host.ErrNotAuthentic,
		},
		{"contract 16: dated today", replaced.Add(19 * 24 * time.Hour), host.ErrNotAuthentic},
	} {
		t.Run(c.name, func(t *testing.T) {
			result, err := token.SealResult(leaked, token.ResultClaims{Session: "svc_sess_x",
				Completed: token.At(c.at)})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := token.OpenResult(now, result); err != c.want {
				t.Errorf("a result token: %v, want %v", err, c.want)
			}
			pending, err := token.SealStep(leaked, token.StepClaims{Session: "svc_sess_x",
				Issued: token.At(c.at)})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := token.OpenStep(now, pending); err != c.want {
				t.Errorf("a provider token: %v, want %v", err, c.want)
			}
		})
	}
}
