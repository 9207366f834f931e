package keyring

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/pemfile"
)

// File is the key ring in the form of its file:
//
//	{"version":1,
//	 "keys":[
//	  {"id":"9f02ab31","secret":"<43 base64url digits>",
//	   "created":"2026-11-20T22:10:00Z","seals_from":"2026-11-20T22:11:00Z"},
//	  {"id":"07c1d2e4","secret":"…","created":"…","replaced":"2026-11-20T22:11:00Z"}],
//	 "retired":[{"id":"51d0ee82","at":"2026-11-01T08:00:00Z"}]}
//
// Keys are listed newest first. The newest key whose seals_from has come is active; all keys open. A key
// without seals_from comes from an earlier release and is active from its creation. Anyone who can read the
// file can read and create every token, so protect it like a TLS private key.
type File struct {
	Keys []token.RingKey

	// Retired lists the removed keys. So an instance can distinguish a ring that is older than the fleet's
	// from a ring whose operator removed a key.
	Retired []Retired
}

// Retired is the file's record of a retired key.
type Retired struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
}

type keyringFile struct {
	Version int       `json:"version"`
	Keys    []keyFile `json:"keys"`
	Retired []Retired `json:"retired,omitempty"`
}

type keyFile struct {
	ID        string     `json:"id"`
	Secret    string     `json:"secret"`
	Created   time.Time  `json:"created"`
	SealsFrom *time.Time `json:"seals_from,omitempty"`
	Replaced  *time.Time `json:"replaced,omitempty"`
}

// Generate returns a ring with one new key, which is active immediately.
func Generate(random io.Reader, now time.Time) (File, error) {
	var kr File
	// not in the return statement, because Go does not specify which operand it evaluates first
	err := kr.Rotate(random, now, 0)
	return kr, err
}

// Parse parses the file's bytes, which may begin with a byte order mark. Its errors never contain a secret.
func Parse(b []byte) (File, error) {
	b, err := pemfile.Text(b)
	if err != nil {
		return File{}, fmt.Errorf("key ring: %w", err)
	}
	var f keyringFile
	if err := json.Unmarshal(b, &f); err != nil {
		if len(bytes.TrimSpace(b)) == 0 {
			return File{}, errors.New("key ring: empty, not JSON; restore it from a copy")
		}
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			return File{}, fmt.Errorf("key ring: not JSON at byte %d; restore it from a copy", syntax.Offset)
		}
		return File{}, errors.New("key ring: not of the form {\"version\":1,\"keys\":[…]}")
	}
	if f.Version != 1 {
		return File{}, fmt.Errorf("key ring: version %d, this release reads version 1", f.Version)
	}
	var kr File
	for i, k := range f.Keys {
		// The error does not contain the id either: if the operator mixed up the fields, it is the secret.
		if _, err := token.ParseKeyID(k.ID); err != nil {
			return File{}, fmt.Errorf("key ring: key %d: %w", i+1, err)
		}
		secret, err := base64.RawURLEncoding.Strict().DecodeString(k.Secret)
		if err != nil || len(secret) != token.SecretSize {
			return File{}, fmt.Errorf("key ring: key %d (%s): the secret is not %d bytes of base64url",
				i+1, k.ID, token.SecretSize)
		}
		rk := token.RingKey{Key: token.Key{ID: k.ID, Secret: secret, Created: k.Created}}
		if k.SealsFrom != nil {
			rk.SealsFrom, rk.Bound = *k.SealsFrom, true
		}
		if k.Replaced != nil {
			rk.Replaced = *k.Replaced
		}
		if i > 0 && rk.Replaced.IsZero() {
			return File{},
				fmt.Errorf("key ring: key %d (%s) has no \"replaced\" time though it is not the first",
					i+1, k.ID)
		}
		kr.Keys = append(kr.Keys, rk)
	}
	if len(kr.Keys) == 0 {
		return File{}, errors.New("key ring: no keys")
	}
	for i, r := range f.Retired {
		if _, err := token.ParseKeyID(r.ID); err != nil {
			return File{}, fmt.Errorf("key ring: retired key %d: %w", i+1, err)
		}
	}
	kr.Retired = f.Retired
	return kr, nil
}

// Marshal returns the file's bytes, which Parse accepts.
func (kr File) Marshal() ([]byte, error) {
	f := keyringFile{Version: 1, Retired: kr.Retired}
	for _, k := range kr.Keys {
		kf := keyFile{ID: k.ID, Secret: base64.RawURLEncoding.EncodeToString(k.Secret), Created: k.Created}
		if k.Bound {
			kf.SealsFrom = &k.SealsFrom
		}
		if !k.Replaced.IsZero() {
			kf.Replaced = &k.Replaced
		}
		f.Keys = append(f.Keys, kf)
	}
	b, err := json.MarshalIndent(f, "", "  ")
	return append(b, '\n'), err
}

// Rotate adds a new first key, which becomes active after the delay. Tokens of older keys stay valid. It
// returns an error while another key waits for its time, because keys must become active in the order of
// the list.
func (kr *File) Rotate(random io.Reader, now time.Time, delay time.Duration) error {
	if len(kr.Keys) > 0 && now.Before(kr.Keys[0].SealsFrom) {
		return fmt.Errorf("key ring: key %s waits already and seals from %s; wait for it, or retire it first",
			kr.Keys[0].ID, kr.Keys[0].SealsFrom.UTC().Format(time.RFC3339))
	}
	k, err := token.GenerateKey(random, now)
	if err != nil {
		return err
	}
	fresh := token.RingKey{Key: k, SealsFrom: k.Created.Add(delay), Bound: true}
	kr.Keys = slices.Clone(kr.Keys) // a server may read a copy of kr concurrently
	if len(kr.Keys) > 0 {
		// The time is rounded up: the older key is active until now, and Created may be up to a second
		// earlier.
		fresh.SealsFrom = fresh.SealsFrom.Add(time.Second)
		kr.Keys[0].Replaced = fresh.SealsFrom
	}
	kr.Keys = slices.Insert(kr.Keys, 0, fresh)
	return nil
}

// Sealing returns the index of the key that is active at now: the newest whose time has come, or the oldest
// if none has.
func (kr File) Sealing(now time.Time) int {
	i := slices.IndexFunc(kr.Keys, func(k token.RingKey) bool { return !now.Before(k.SealsFrom) })
	if i < 0 {
		return len(kr.Keys) - 1
	}
	return i
}

// Retire removes a key. Without force it returns an error while tokens or records of the key can still be
// requested. life is the longest such span: a session's lifetime and the time for which its outcome is
// kept. A key that was never active can be retired at any time.
func (kr *File) Retire(id string, now time.Time, life time.Duration, force bool) error {
	i := slices.IndexFunc(kr.Keys, func(k token.RingKey) bool { return k.ID == id })
	sealing := kr.Sealing(now)
	switch {
	case i < 0:
		return fmt.Errorf("key ring: there is no key %s", id)
	case len(kr.Keys) == 1:
		return fmt.Errorf("key ring: %s is the only key; rotate first", id)
	case i == sealing && !force:
		return fmt.Errorf("key ring: %s is the active key; rotate first", id)
	}
	if alive := kr.Keys[i].Replaced.Add(life); i > sealing && !force && now.Before(alive) {
		return fmt.Errorf("key ring: sessions of key %s can be asked for until %s; "+
			"retire it then, or force it and lose them", id, alive.UTC().Format(time.RFC3339))
	}
	kr.Keys = slices.Clone(kr.Keys) // a server may read a copy of kr concurrently
	if i > 0 {
		// The predecessor's time ends when the next newer key's begins.
		for n := i + 1; n < len(kr.Keys) && kr.Keys[n].Replaced.Equal(kr.Keys[i].SealsFrom); n++ {
			kr.Keys[n].Replaced = kr.Keys[i].Replaced
		}
	}
	kr.Keys = slices.Delete(kr.Keys, i, i+1)
	kr.Keys[0].Replaced = time.Time{}
	kr.Retired = append(kr.Retired, Retired{ID: id, At: now.UTC().Truncate(time.Second)})
	return nil
}

// Ring returns the ring for one host name. It seals and opens by the times of the keys. now is the clock.
func (kr File) Ring(host string, random io.Reader, now func() time.Time) (*token.Ring, error) {
	return token.NewTimedRing(host, random, now, kr.Keys)
}
