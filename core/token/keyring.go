package token

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// Keyring is the key ring as it is kept in a file:
//
//	{"version":1,"keys":[
//	  {"id":"9f02ab31","secret":"<43 base64url digits>","created":"2026-11-20T22:10:00Z"},
//	  {"id":"07c1d2e4","secret":"…","created":"…","replaced":"2026-11-20T22:10:00Z"}]}
//
// The first key seals, all open. Whoever reads the file can read and make
// every token: it is kept like a TLS private key.
type Keyring struct {
	Keys []RingKey
}

// RingKey is a key and when it ceased to seal (zero for the first one).
type RingKey struct {
	Key
	Replaced time.Time
}

type keyringFile struct {
	Version int       `json:"version"`
	Keys    []keyFile `json:"keys"`
}

type keyFile struct {
	ID       string     `json:"id"`
	Secret   string     `json:"secret"`
	Created  time.Time  `json:"created"`
	Replaced *time.Time `json:"replaced,omitempty"`
}

// GenerateKeyring makes a ring of one fresh key.
func GenerateKeyring(random io.Reader, now time.Time) (Keyring, error) {
	var kr Keyring
	err := kr.Rotate(random, now) // not in the return: Go leaves open which operand is taken first
	return kr, err
}

// ParseKeyring reads the file's bytes. Errors never repeat a secret.
func ParseKeyring(b []byte) (Keyring, error) {
	var f keyringFile
	if err := json.Unmarshal(b, &f); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return Keyring{}, fmt.Errorf("key ring: not JSON at byte %d", syntax.Offset)
		}
		return Keyring{}, errors.New("key ring: not of the form {\"version\":1,\"keys\":[…]}")
	}
	if f.Version != 1 {
		return Keyring{}, fmt.Errorf("key ring: version %d, this release reads version 1", f.Version)
	}
	var kr Keyring
	for i, k := range f.Keys {
		// Not repeated either: whoever mixed up the members has put the secret here.
		if _, err := parseKeyID(k.ID); err != nil {
			return Keyring{}, fmt.Errorf("key ring: key %d: %w", i+1, err)
		}
		secret, err := base64.RawURLEncoding.Strict().DecodeString(k.Secret)
		if err != nil || len(secret) != secretSize {
			return Keyring{}, fmt.Errorf("key ring: key %d (%s): the secret is not %d bytes of base64url", i+1, k.ID, secretSize)
		}
		rk := RingKey{Key: Key{ID: k.ID, Secret: secret, Created: k.Created}}
		if k.Replaced != nil {
			rk.Replaced = *k.Replaced
		}
		if i > 0 && rk.Replaced.IsZero() {
			return Keyring{}, fmt.Errorf("key ring: key %d (%s) has no \"replaced\" time though it is not the first", i+1, k.ID)
		}
		kr.Keys = append(kr.Keys, rk)
	}
	if len(kr.Keys) == 0 {
		return Keyring{}, errors.New("key ring: no keys")
	}
	return kr, nil
}

// Marshal returns the file's bytes; ParseKeyring reads them back.
func (kr Keyring) Marshal() ([]byte, error) {
	f := keyringFile{Version: 1}
	for _, k := range kr.Keys {
		kf := keyFile{ID: k.ID, Secret: base64.RawURLEncoding.EncodeToString(k.Secret), Created: k.Created}
		if !k.Replaced.IsZero() {
			kf.Replaced = &k.Replaced
		}
		f.Keys = append(f.Keys, kf)
	}
	b, err := json.MarshalIndent(f, "", "  ")
	return append(b, '\n'), err
}

// Rotate puts a fresh key first. What older keys sealed goes on being good.
func (kr *Keyring) Rotate(random io.Reader, now time.Time) error {
	k, err := GenerateKey(random, now)
	if err != nil {
		return err
	}
	if len(kr.Keys) > 0 {
		// Rounded up: it sealed until now, and Created may lie up to a second before.
		kr.Keys[0].Replaced = k.Created.Add(time.Second)
	}
	kr.Keys = slices.Insert(kr.Keys, 0, RingKey{Key: k})
	return nil
}

// Retire removes a key. Without force it refuses while anything that the key
// sealed or authenticated can still be asked for: life is the longest such
// span: a session's life and how long its outcome is kept.
func (kr *Keyring) Retire(id string, now time.Time, life time.Duration, force bool) error {
	i := slices.IndexFunc(kr.Keys, func(k RingKey) bool { return k.ID == id })
	switch {
	case i < 0:
		return fmt.Errorf("key ring: there is no key %s", id)
	case i == 0 && len(kr.Keys) == 1:
		return fmt.Errorf("key ring: %s is the only key; rotate first", id)
	case i == 0 && !force:
		return fmt.Errorf("key ring: %s is the key that seals; rotate first", id)
	}
	if alive := kr.Keys[i].Replaced.Add(life); !force && now.Before(alive) {
		return fmt.Errorf("key ring: sessions of key %s can be asked for until %s; retire it then, or force it and lose them",
			id, alive.UTC().Format(time.RFC3339))
	}
	kr.Keys = slices.Delete(kr.Keys, i, i+1)
	kr.Keys[0].Replaced = time.Time{}
	return nil
}

// Ring returns the ring for one host name.
func (kr Keyring) Ring(host string, random io.Reader) (*Ring, error) {
	keys := make([]Key, len(kr.Keys))
	for i, k := range kr.Keys {
		keys[i] = k.Key
	}
	return NewRing(host, random, keys...)
}
