package webvh

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

const recorded = "did:webvh:QmdRkbenqHP2kZo39CVBMFYqF35dPqFr1cqYs53F7PGMJe:registry.example:api:v1:did:1"

// signer is a key that signs entries.
type signer struct{ ed25519.PrivateKey }

func newSigner() signer {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	return signer{private}
}

func (s signer) id() string {
	return "z" + base58(append([]byte{0xed, 0x01}, s.Public().(ed25519.PublicKey)...))
}

// maker writes a log. change changes the entry with a number before its hash, and after after it.
type maker struct {
	did           string
	entries       []object
	change, after func(number int, e object)
}

func (m *maker) add(at time.Time, parameters object, by signer) {
	number := len(m.entries) + 1
	e := object{"versionId": placeholder, "versionTime": at.Format(time.RFC3339), "parameters": parameters,
		"state": object{"id": method + placeholder + ":a.example", "verificationMethod": []any{}}}
	if number == 1 {
		parameters["scid"], parameters["method"] = placeholder, version
	}
	if m.change != nil {
		m.change(number, e)
	}
	before := ""
	if number == 1 {
		before = hashOf(e)
		m.did = method + before + ":a.example"
	} else {
		before = m.entries[number-2].text("versionId")
	}
	scid, _, _ := strings.Cut(strings.TrimPrefix(m.did, method), ":")
	e, err := readObject(bytes.ReplaceAll(canonical(e), []byte(placeholder), []byte(scid)))
	if err != nil {
		panic(err)
	}
	e["versionId"] = before
	e["versionId"] = string(rune('0'+number)) + "-" + hashOf(e)
	if m.after != nil {
		m.after(number, e)
	}
	key := "did:key:" + by.id() + "#" + by.id()
	proof := object{"type": "DataIntegrityProof", "cryptosuite": "eddsa-jcs-2022", "verificationMethod": key,
		"proofPurpose": "assertionMethod"}
	options, message := sha256.Sum256(canonical(proof)), sha256.Sum256(canonical(e))
	proof["proofValue"] = "z" + base58(ed25519.Sign(by.PrivateKey, append(options[:], message[:]...)))
	e["proof"] = []any{proof}
	m.entries = append(m.entries, e)
}

func (m *maker) log() []byte {
	var lines [][]byte
	for _, e := range m.entries {
		lines = append(lines, canonical(e))
	}
	return bytes.Join(lines, []byte("\n"))
}

// The log of another library verifies, and no changed byte of it does.
func TestVerify_Recorded(t *testing.T) {
	log, err := os.ReadFile("testdata/didwebvh-ts.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	l, err := Verify(recorded, log, noon)
	if err != nil || l.Entries != 3 || len(l.Keys) != 2 || l.Skipped != 0 ||
		l.Keys[1].ID != recorded+"#assert-3" || l.Keys[1].Curve != "P-256" {
		t.Fatalf("contract 39: %+v, %v", l, err)
	}
	lines := bytes.SplitAfter(log, []byte("\n"))
	for name, c := range map[string]struct {
		log  []byte
		now  time.Time
		want string
	}{
		"a key was replaced": {bytes.Replace(log, []byte("PQ2Zy3"), []byte("PQ2Zy4"), 1), noon,
			"entry 3: versionId"},
		"the first key was replaced": {bytes.Replace(log, []byte("HINZ5j"), []byte("HINZ5k"), 1), noon,
			"entry 1: the identifier"},
		"an entry is missing":  {bytes.Join([][]byte{lines[0], lines[2]}, nil), noon, "want the number 2"},
		"the order is another": {bytes.Join([][]byte{lines[1], lines[0]}, nil), noon, "want the number 1"},
		"of the future":        {log, noon.AddDate(0, 0, -7), "in the future"},
		"empty":                {nil, noon, "no JSON object"},
		"too large":            {append(bytes.Clone(log), make([]byte, MaxSize)...), noon, "at most 1048576"},
		"too many entries":     {bytes.Repeat([]byte("{}\n"), 2001), noon, "at most 2000"},
		"a name twice": {
			bytes.Replace(log, []byte(`{"versionId"`), []byte(`{"state":{},"versionId"`), 1), noon,
			"occurs twice"},
	} {
		if _, err := Verify(recorded, c.log, c.now); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("contract 39: %s: %v, want %q", name, err, c.want)
		}
	}
	// An attacker may cut the end off: only the registry can prevent that. The result is an earlier document.
	if l, err := Verify(recorded, lines[0], noon); err != nil || l.Entries != 1 {
		t.Errorf("the first entry alone: %+v, %v", l, err)
	}
}

// Only the keys that the log allows change it.
func TestVerify_Attacks(t *testing.T) {
	one, two, stranger := newSigner(), newSigner(), newSigner()
	keys := func(all ...signer) (list []any) {
		for _, s := range all {
			list = append(list, s.id())
		}
		return list
	}
	own := func() object { return object{"updateKeys": keys(one)} }
	hashes := func(s signer) []any { return []any{digest([]byte(s.id()))} }
	for _, c := range []struct {
		rule          string
		first, second object
		by            signer
		change, after func(int, object)
		want          string
	}{
		{"unchanged", own(), object{}, one, nil, nil, ""},
		{"the key changes later", own(), object{"updateKeys": keys(two)}, one, nil,
			nil, ""},
		{"announced", object{"updateKeys": keys(one), "nextKeyHashes": hashes(two)},
			object{"updateKeys": keys(two), "nextKeyHashes": []any{}}, two, nil, nil, ""},
		{"signed by a stranger", own(), object{}, stranger, nil, nil, "may not sign"},
		{"a stranger adds itself", own(), object{"updateKeys": keys(one, stranger)},
			stranger, nil, nil, "may not sign"},
		{"not announced", object{"updateKeys": keys(one), "nextKeyHashes": hashes(two)},
			object{"updateKeys": keys(one), "nextKeyHashes": []any{}}, one, nil, nil, "other keys"},
		{"announced keys are left out", object{"updateKeys": keys(one), "nextKeyHashes": hashes(two)},
			object{}, one, nil, nil, "other keys"},
		{"deactivated", own(), object{"deactivated": true}, one, nil, nil, "deactivated"},
		{"portable", object{"updateKeys": keys(one), "portable": true}, object{}, one, nil, nil, "portable"},
		{"witnesses", object{"updateKeys": keys(one), "witness": object{"threshold": json.Number("1")}},
			object{}, one, nil, nil, "witnesses"},
		{"another method", own(), object{"method": "did:webvh:0.5"}, one, nil, nil, "method"},
		{"keys that are a text", object{"updateKeys": one.id()}, object{}, one, nil, nil, "lists of texts"},
		{"no keys", object{}, object{}, one, nil, nil, "may not sign"},
		{"another DID", own(), object{}, one, func(n int, e object) {
			if n == 2 {
				e["state"] = object{"id": "did:webvh:Qm:b.example"}
			}
		}, nil, "moved"},
		{"another controller", own(), object{}, one, func(n int, e object) {
			e["state"].(object)["controller"] = "did:webvh:Qm:b.example"
		}, nil, "controller"},
		{"back in time", own(), object{}, one, func(n int, e object) {
			if n == 2 {
				e["versionTime"] = "2020-01-01T00:00:00Z"
			}
		}, nil, "before the entry above"},
		{"changed after its hash", own(), object{}, one, nil, func(_ int, e object) {
			e["state"].(object)["verificationMethod"] = []any{object{}}
		}, "the identifier"},
		{"a number of another form", object{"updateKeys": keys(one), "ttl": json.Number("1e3")}, object{},
			one, nil, nil, "2^53"},
	} {
		m := maker{change: c.change, after: c.after}
		func() {
			defer func() {
				if r := recover(); r != nil && c.want != "2^53" { // the maker cannot write it
					t.Errorf("%s: %v", c.rule, r)
				}
			}()
			m.add(noon.Add(-2*time.Hour), c.first, one)
			m.add(noon.Add(-time.Hour), c.second, c.by)
			_, err := Verify(m.did, m.log(), noon)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("contract 39: %s: %v, want %q", c.rule, err, c.want)
			}
		}()
	}
	m := maker{}
	m.add(noon, object{"updateKeys": keys(one)}, one)
	proof := m.entries[0]["proof"].([]any)[0].(object)
	for name, value := range map[string]string{"proofPurpose": "authentication",
		"cryptosuite": "eddsa-rdfc-2022", "type": "Ed25519Signature2020", "created": "2026-01-01",
		"proofValue":         "z" + base58(make([]byte, 64)),
		"verificationMethod": "did:key:" + stranger.id() + "#" + one.id()} {
		m.entries[0]["proof"] = []any{proof.with(name, value)}
		if _, err := Verify(m.did, m.log(), noon); err == nil {
			t.Errorf("contract 39: a proof with another %s is accepted", name)
		}
	}
	for _, none := range []any{nil, []any{}, "x"} {
		m.entries[0]["proof"] = none
		if _, err := Verify(m.did, m.log(), noon); err == nil {
			t.Errorf("contract 39: the proof %v is accepted", none)
		}
	}
}

func TestAddress(t *testing.T) {
	for did, want := range map[string]string{
		"did:webvh:Qm:a.example":                "https://a.example/.well-known/did.jsonl",
		"did:webvh:Qm:a.example:api:v1":         "https://a.example/api/v1/did.jsonl",
		"did:webvh:Qm:a.example%3A8443:api":     "https://a.example:8443/api/did.jsonl",
		"did:webvh:Qm":                          "",
		"did:webvh::a.example":                  "",
		"did:tdw:Qm:a.example":                  "",
		"did:webvh:Qm:a.example:..:x":           "",
		"did:webvh:Qm:a.example:%2e%2e:x":       "",
		"did:webvh:Qm:a.example%2fb":            "",
		"did:webvh:Qm:user%40a.example":         "",
		"did:webvh:Qm:a.example#key":            "",
		"did:webvh:Qm:a.example:x:":             "",
		"did:webvh:Qm:a.example?versionId=1-Qm": "",
	} {
		if got, err := Address(did); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v, want %q", did, got, err, want)
		}
	}
}

// The canonical form follows RFC 8785, 3.2.3, in texts and in the order of names.
func TestCanonical(t *testing.T) {
	o, err := readObject([]byte(`{"\u20ac":"Euro","\r":"CR","\ufb33":"D","1":1,"\ud83d\ude00":[true,null],` +
		`"\u0080":"\u0007\"\\\/<\u2028","\u00f6":-3}`))
	if err != nil {
		t.Fatal(err)
	}
	const want = "{\"\\r\":\"CR\",\"1\":1,\"\u0080\":\"\\u0007\\\"\\\\/<\u2028\",\"ö\":-3,\"€\":\"Euro\"," +
		"\"😀\":[true,null],\"\ufb33\":\"D\"}"
	if got := string(canonical(o)); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
