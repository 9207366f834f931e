package transcript_test

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/verge-id/verge/edge/transcript"
	"github.com/verge-id/verge/wasm/settings"
)

// stored returns a transcript of the corpus, decompressed.
func stored(t testing.TB, name string) []byte {
	t.Helper()
	f, err := os.Open("../../testharness/corpus/testdata/" + name + ".jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func read(t testing.TB, b []byte) *transcript.Transcript {
	t.Helper()
	r, err := transcript.Read(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func pack(t testing.TB, b []byte) []byte {
	t.Helper()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write(b)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// A transcript that is read and written again has the same bytes, compressed or not.
func TestRead_RoundTrip(t *testing.T) {
	text := stored(t, "webhooks")
	plain, packed := read(t, text), read(t, pack(t, text))
	if !reflect.DeepEqual(plain, packed) {
		t.Error("a packed transcript is read as a different one")
	}
	var again bytes.Buffer
	if err := plain.Write(&again); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(again.Bytes(), text) {
		t.Error("a rewritten transcript has different bytes")
	}
}

// The randomness of a step is as documented, so other languages can generate it.
func TestEntropy(t *testing.T) {
	b := make([]byte, 40)
	r := transcript.Entropy(7)
	for n := range b { // byte by byte, or all together
		if _, err := r.Read(b[n : n+1]); err != nil {
			t.Fatal(err)
		}
	}
	// printf 'verge transcript\7\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' | sha256sum,
	// and eight bytes of the same with \1 for the second count.
	const want = "f506d2df185cd169b0216bbe9b16647ba79ec9401f7cad9cf199aa49d4d45d06095f11046a5dcfac"
	if got := hex.EncodeToString(b); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	all := make([]byte, 40)
	transcript.Entropy(7).Read(all)
	if !bytes.Equal(all, b) {
		t.Error("the bytes depend on the size of the reads")
	}
}

// A file that is not a transcript is rejected with the line and the reason.
func TestRead_Errors(t *testing.T) {
	text := string(stored(t, "limits"))
	lines := strings.SplitAfter(text, "\n")
	head, step := lines[0], lines[1]
	packed := string(pack(t, []byte(text)))
	damaged := []byte(packed)
	damaged[len(damaged)/2] ^= 0xff
	sub := func(s, old, new string) string {
		t.Helper()
		if !strings.Contains(s, old) {
			t.Fatalf("%q is not there", old)
		}
		return strings.Replace(s, old, new, 1)
	}
	for _, c := range []struct{ name, in, says string }{
		{"nothing", "", "it is empty"},
		{"text", "hello", "line 1: no transcript: it must be a head"},
		{"JSON of another kind", "{}\n", "line 1: no transcript: it must be a head"},
		{"another version", sub(head, `"transcript":1`, `"transcript":2`),
			"line 1: no transcript: version 2 of ABI 4, and this program reads version 1 of ABI 4"},
		{"another ABI", sub(head, `"abi":4`, `"abi":9`), "version 1 of ABI 9"},
		{"an unknown setting", sub(head, `"base_url"`, `"base_uri"`),
			`line 1: no transcript: json: unknown field "base_uri"`},
		{"no key ring", `{"transcript":1,"abi":4,"config":{"base_url":"https://verge.example"}}`,
			"line 1: no transcript: config.keyring"},
		{"a truncated step", head + step[:len(step)/2], "line 2: no transcript: it is cut short"},
		{"a step and more", head + strings.TrimSpace(step) + "{}\n",
			"line 2: no transcript: something follows the object"},
		{"an empty line", head + "\n" + step, "line 2: no transcript: it is cut short"},
		{"an unknown member", head + sub(step, `"seed"`, `"sead"`), `unknown field "sead"`},
		{"an unknown entry", head + sub(step, `"entry":"handle"`, `"entry":"self-test"`),
			`line 2: no transcript: entry: "self-test" is none of ["admin" "apply"`},
		{"a character that is not a byte", head + sub(step, "POST", "PÖŁT"),
			"line 2: no transcript: body: character U+0141 is no byte"},
		{"a body that is not a message", head + sub(step, "POST", "POSTS"),
			"line 2: no transcript: body: abi: malformed message"},
		{"a response that is not a message", head + sub(step, `"answer":"`, `"answer":"x`),
			"line 2: no transcript: answer: abi: malformed message"},
		{"an unknown event", head + sub(step, `"kind":"spend"`, `"kind":"spent"`),
			`line 2: no transcript: event 1: "spent" is none of`},
		{"an event with no message", head + sub(step, `"kind":"spend","body":"`, `"kind":"spend","body":"x`),
			"line 2: no transcript: event 1: body: abi: malformed message"},
		{"a reply that is not a message", head + sub(step, `"reply":"`, `"reply":"x`),
			"line 2: no transcript: event 1: reply: abi: malformed message"},
		{"a status that the effect does not have", head + sub(step, `,"reply"`, `,"status":2,"reply"`),
			"line 2: no transcript: event 1: a spend is not replied to with status 2"},
		{"a notice with a reply", head + sub(step, `"kind":"spend"`, `"kind":"log"`),
			"line 2: no transcript: event 1: a log is not replied to"},
		{"a clock that goes back", head + lines[2] + step, "line 3: no transcript: now: the clock goes back"},
		{"a time out of range", head + sub(step, `"now":"2026`, `"now":"1026`),
			"line 2: no transcript: now: it must be between"},
		{"compressed and truncated", packed[:len(packed)/2], "no transcript: unexpected EOF"},
		{"packed and damaged", string(damaged), "no transcript: "},
		{"packed and nothing", string(pack(t, nil)), "it is empty"},
		{"no gzip after its first bytes", "\x1f\x8bhello", "no transcript: gzip: "},
	} {
		_, err := transcript.Read(strings.NewReader(c.in))
		if !errors.Is(err, transcript.ErrFormat) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
	broken := errors.New("broken")
	_, err := transcript.Read(io.MultiReader(strings.NewReader(head), failing{broken}))
	if !errors.Is(err, broken) || errors.Is(err, transcript.ErrFormat) {
		t.Errorf("a file that cannot be read: %v, want only the reader's error", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// FuzzRead checks that a transcript that was read can be written, and is read again unchanged.
func FuzzRead(f *testing.F) {
	lines := bytes.SplitAfter(stored(f, "faults"), []byte("\n"))
	shortest := map[string][]byte{} // of each entry: fuzzing long ones is slow
	for _, line := range lines[1 : len(lines)-1] {
		_, entry, _ := bytes.Cut(line, []byte(`"entry":"`))
		entry, _, _ = bytes.Cut(entry, []byte(`"`))
		if had := shortest[string(entry)]; had == nil || len(line) < len(had) {
			shortest[string(entry)] = line
		}
	}
	whole := read(f, lines[0])
	whole.Config = settings.Config{Keyring: whole.Config.Keyring}
	var head bytes.Buffer
	if err := whole.Write(&head); err != nil {
		f.Fatal(err)
	}
	for _, line := range shortest {
		f.Add(append(bytes.Clone(head.Bytes()), line...))
	}
	f.Add(pack(f, append(bytes.Clone(head.Bytes()), shortest["ready"]...)))
	f.Add([]byte(`{"transcript":1,"abi":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		first, err := transcript.Read(bytes.NewReader(b))
		if err != nil {
			if !errors.Is(err, transcript.ErrFormat) {
				t.Errorf("%v", err)
			}
			return
		}
		for n := range first.Steps {
			first.Steps[n].Line()
		}
		var text bytes.Buffer
		if err := first.Write(&text); err != nil {
			t.Fatal(err)
		}
		second, err := transcript.Read(&text)
		if err != nil || !reflect.DeepEqual(first.Steps, second.Steps) {
			t.Errorf("it is read differently the second time: %v", err)
		}
	})
}
