package member

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"slices"
	"testing"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/core/internal/coretest"
)

const (
	rpID   = "verify.verge.example"
	origin = "https://" + rpID
)

// device is an authenticator with one passkey, and its browser.
type device struct {
	key     *ecdsa.PrivateKey
	id      []byte
	handle  []byte // of the user of the passkey
	counts  bool
	counter uint32
	origin  string // "": the correct origin
}

func newDevice(t testing.TB) *device {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	coretest.Must(t, err)
	id := sha256.Sum256(key.X.Bytes())
	return &device{key: key, id: id[:]}
}

// copied returns another device with the same passkey.
func (d *device) copied() *device { c := *d; return &c }

var b64 = base64.RawURLEncoding

// asked has the fields of both kinds of options.
type asked struct {
	Challenge string                      `json:"challenge"`
	User      struct{ ID, Name string }   `json:"user"`
	Exclude   []struct{ ID, Type string } `json:"excludeCredentials"`
	Allow     []struct{ ID, Type string } `json:"allowCredentials"`
}

func readOptions(t testing.TB, options []byte) (a asked) {
	t.Helper()
	coretest.Must(t, json.Unmarshal(options, &a))
	return a
}

func (d *device) clientData(t testing.TB, kind, challenge string) []byte {
	t.Helper()
	at := d.origin
	if at == "" {
		at = origin
	}
	b, err := json.Marshal(map[string]any{"type": kind, "challenge": challenge, "origin": at})
	coretest.Must(t, err)
	return b
}

func (d *device) data(flags byte) []byte {
	if d.counts {
		d.counter++
	}
	hash := sha256.Sum256([]byte(rpID))
	return binary.BigEndian.AppendUint32(append(hash[:], flags), d.counter)
}

func (d *device) answer(t testing.TB, response map[string]string) []byte {
	t.Helper()
	id := b64.EncodeToString(d.id)
	b, err := json.Marshal(map[string]any{"id": id, "rawId": id, "type": "public-key", "response": response})
	coretest.Must(t, err)
	return b
}

// create creates the passkey.
func (d *device) create(t testing.TB, c Ceremony) []byte {
	t.Helper()
	options := readOptions(t, c.Options)
	var err error
	d.handle, err = b64.DecodeString(options.User.ID)
	coretest.Must(t, err)
	point, err := d.key.PublicKey.Bytes()
	coretest.Must(t, err)
	pair := func(key int64, value cbor.Item) cbor.Pair {
		return cbor.Pair{Key: cbor.Integer(key), Value: value}
	}
	public := cbor.Map(pair(1, cbor.Integer(2)), pair(3, cbor.Integer(-7)), pair(-1, cbor.Integer(1)),
		pair(-2, cbor.Bytes(point[1:33])), pair(-3, cbor.Bytes(point[33:])))
	data := append(d.data(1|4|64), make([]byte, 16)...)
	data = binary.BigEndian.AppendUint16(data, uint16(len(d.id)))
	data = slices.Concat(data, d.id, public.Raw())
	named := func(key string, value cbor.Item) cbor.Pair {
		return cbor.Pair{Key: cbor.Text(key), Value: value}
	}
	attestation := cbor.Map(named("fmt", cbor.Text("none")), named("attStmt", cbor.Map()),
		named("authData", cbor.Bytes(data)))
	return d.answer(t, map[string]string{
		"clientDataJSON":    b64.EncodeToString(d.clientData(t, "webauthn.create", options.Challenge)),
		"attestationObject": b64.EncodeToString(attestation.Raw()),
	})
}

// get signs with the passkey.
func (d *device) get(t testing.TB, c Ceremony) []byte {
	t.Helper()
	client := d.clientData(t, "webauthn.get", readOptions(t, c.Options).Challenge)
	data := d.data(1 | 4)
	hash := sha256.Sum256(client)
	digest := sha256.Sum256(slices.Concat(data, hash[:]))
	signature, err := ecdsa.SignASN1(rand.Reader, d.key, digest[:])
	coretest.Must(t, err)
	return d.answer(t, map[string]string{
		"clientDataJSON":    b64.EncodeToString(client),
		"authenticatorData": b64.EncodeToString(data),
		"signature":         b64.EncodeToString(signature),
		"userHandle":        b64.EncodeToString(d.handle),
	})
}

// changed returns the JSON with a text replaced.
func changed(t testing.TB, answer []byte, from, to string) []byte {
	t.Helper()
	if !bytes.Contains(answer, []byte(from)) {
		t.Fatalf("%s has no %s", answer, from)
	}
	return bytes.ReplaceAll(answer, []byte(from), []byte(to))
}
