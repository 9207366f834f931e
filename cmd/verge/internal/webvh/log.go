package webvh

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MaxSize is the maximum number of bytes of a log.
const MaxSize = 1 << 20

// maxEntries is the maximum number of entries of a log.
const maxEntries = 2000

const (
	method      = "did:webvh:"
	version     = method + "1.0"
	placeholder = "{SCID}"
)

// Address returns the address of the log of a DID.
func Address(did string) (string, error) {
	scid, place, ok := strings.Cut(strings.TrimPrefix(did, method), ":")
	if !ok || !strings.HasPrefix(did, method) || scid == "" || strings.ContainsAny(did, "#?/ \n") {
		return "", fmt.Errorf("%q is no DID such as did:webvh:Qm…:registry.example:api", did)
	}
	parts := strings.Split(place, ":")
	for i, p := range parts {
		plain, err := url.PathUnescape(p)
		if err != nil || plain == "" || plain == "." || plain == ".." ||
			strings.ContainsAny(plain, "/?#@\\") {
			return "", fmt.Errorf("%q has a part that is no part of an address: %q", did, p)
		}
		parts[i] = plain
	}
	u := url.URL{Scheme: "https", Host: parts[0], Path: "/.well-known/did.jsonl"}
	if len(parts) > 1 {
		u.Path = "/" + strings.Join(parts[1:], "/") + "/did.jsonl"
	}
	return u.String(), nil
}

// Log is a verified log.
type Log struct {
	Entries int
	Updated time.Time // of the last entry
	Keys    []Key     // of the document of the last entry
	Skipped int       // verification methods that are no keys on P-256, P-384 or P-521
}

// Key is a JWK with the DID URL of the key.
type Key struct {
	ID    string `json:"kid"`
	Type  string `json:"kty"`
	Curve string `json:"crv"`
	X     string `json:"x"`
	Y     string `json:"y"`
}

// state is the state of a log after an entry.
type state struct {
	scid, id   string   // id: versionId
	updateKeys []string // that may sign the next entry
	next       []string // hashes of the keys of the next entry; empty: any
	at         time.Time
}

// Verify verifies the log of a DID. now is the time of the check.
func Verify(did string, log []byte, now time.Time) (l Log, err error) {
	if _, err := Address(did); err != nil {
		return l, err
	}
	if len(log) > MaxSize {
		return l, fmt.Errorf("the log has %d bytes; at most %d are allowed", len(log), MaxSize)
	}
	lines := bytes.Split(bytes.TrimSpace(log), []byte("\n"))
	if len(lines) > maxEntries {
		return l, fmt.Errorf("the log has %d entries; at most %d are allowed", len(lines), maxEntries)
	}
	scid, _, _ := strings.Cut(strings.TrimPrefix(did, method), ":")
	s := state{scid: scid}
	var document object
	for n, line := range lines {
		e, err := readObject(line)
		if err == nil {
			document, err = s.add(did, n+1, e, now)
		}
		if err != nil {
			return l, fmt.Errorf("entry %d: %w", n+1, err)
		}
	}
	l.Entries, l.Updated = len(lines), s.at
	l.Keys, l.Skipped = keysOf(did, document)
	return l, nil
}

// add verifies the entry with a number and returns its document.
func (s *state) add(did string, number int, e object, now time.Time) (document object, err error) {
	id, at := e.text("versionId"), e.text("versionTime")
	ordinal, hash, _ := strings.Cut(id, "-")
	when, err := time.Parse(time.RFC3339, at)
	switch {
	case ordinal != strconv.Itoa(number):
		return nil, fmt.Errorf("versionId is %q, want the number %d", id, number)
	case err != nil:
		return nil, fmt.Errorf("versionTime is %q", at)
	case when.Before(s.at) || when.After(now):
		return nil, fmt.Errorf("versionTime is %s, before the entry above or in the future", at)
	}
	parameters, _ := e["parameters"].(object)
	signers, err := s.change(number, parameters)
	if err != nil {
		return nil, err
	}
	if number == 1 {
		if err := s.checkSCID(e); err != nil {
			return nil, err
		}
		s.id = s.scid
	}
	if hashOf(e.with("versionId", s.id).without("proof")) != hash {
		return nil, errors.New("versionId has another hash than the entry")
	}
	if err := checkProofs(e, signers); err != nil {
		return nil, err
	}
	document, _ = e["state"].(object)
	if id := document.text("id"); id != did {
		return nil, fmt.Errorf("the document is of %q; a DID that was moved is not accepted", id)
	}
	if c := document["controller"]; c != nil && c != did {
		return nil, errors.New("the document has another controller than the DID")
	}
	s.id, s.at = id, when
	return document, nil
}

// change applies the parameters of an entry, and returns the keys that may sign it.
func (s *state) change(number int, p object) (signers []string, err error) {
	first := number == 1
	if m := p["method"]; (first || m != nil) && m != version {
		return nil, fmt.Errorf("the method is %v, and only %s is known", m, version)
	}
	if id := p["scid"]; (first || id != nil) && id != s.scid {
		return nil, fmt.Errorf("scid is %v, and the DID has %s", id, s.scid)
	}
	switch {
	case p["portable"] == true:
		return nil, errors.New("the DID is portable, which is not accepted")
	case p["deactivated"] == true:
		return nil, errors.New("the DID is deactivated")
	}
	if w, isObject := p["witness"].(object); p["witness"] != nil && (!isObject || len(w) > 0) {
		return nil, errors.New("the DID has witnesses, which cannot be checked")
	}
	own, hasOwn, okOwn := p.texts("updateKeys")
	next, hasNext, okNext := p.texts("nextKeyHashes")
	if !okOwn || !okNext {
		return nil, errors.New("updateKeys and nextKeyHashes must be lists of texts")
	}
	switch {
	case len(s.next) > 0: // the keys were announced
		if !hasOwn || !hasNext || slices.ContainsFunc(own, func(k string) bool {
			return !slices.Contains(s.next, digest([]byte(k)))
		}) {
			return nil, errors.New("updateKeys are other keys than the entry above announces")
		}
		signers = own
	case first:
		signers = own
	default:
		signers = s.updateKeys
	}
	if hasOwn {
		s.updateKeys = own
	}
	if hasNext {
		s.next = next
	}
	return signers, nil
}

// checkSCID checks that the DID's identifier is the hash of the first entry.
func (s *state) checkSCID(e object) error {
	text := canonical(e.with("versionId", placeholder).without("proof"))
	if digest(bytes.ReplaceAll(text, []byte(s.scid), []byte(placeholder))) != s.scid {
		return errors.New("the identifier in the DID (SCID) is not the hash of the first entry")
	}
	return nil
}

// checkProofs checks that one of the proofs of an entry is by one of these keys, and that no proof is wrong.
func checkProofs(e object, signers []string) error {
	list, isList := e["proof"].([]any)
	if one, ok := e["proof"].(object); ok {
		list, isList = []any{one}, true
	}
	if !isList || len(list) == 0 || len(list) > 16 {
		return errors.New("it has no proof")
	}
	message := sha256.Sum256(canonical(e.without("proof")))
	for _, v := range list {
		p, _ := v.(object)
		key, ok := strings.CutPrefix(p.text("verificationMethod"), "did:key:")
		key, _, _ = strings.Cut(key, "#")
		public, okKey := publicKey(key)
		signature, okValue := multibase(p.text("proofValue"))
		if !ok || !okKey || !okValue || p.text("type") != "DataIntegrityProof" ||
			p.text("cryptosuite") != "eddsa-jcs-2022" || p.text("proofPurpose") != "assertionMethod" {
			return errors.New("a proof is none of eddsa-jcs-2022 by a did:key")
		}
		if !slices.Contains(signers, key) {
			return errors.New("a proof is by a key that may not sign the entry")
		}
		options := sha256.Sum256(canonical(p.without("proofValue")))
		if !ed25519.Verify(public, append(options[:], message[:]...), signature) {
			return errors.New("the signature of a proof is wrong")
		}
	}
	return nil
}

// publicKey reads a Multikey with a key for Ed25519.
func publicKey(text string) (ed25519.PublicKey, bool) {
	b, ok := multibase(text)
	if !ok || len(b) != 2+ed25519.PublicKeySize || b[0] != 0xed || b[1] != 0x01 {
		return nil, false
	}
	return b[2:], true
}

// curves are the curves of keys that verify documents.
var curves = []string{"P-256", "P-384", "P-521"}

// keysOf returns the keys of a document. skipped is the number of its other verification methods.
func keysOf(did string, document object) (keys []Key, skipped int) {
	list, _ := document["verificationMethod"].([]any)
	for _, v := range list {
		m, _ := v.(object)
		jwk, _ := m["publicKeyJwk"].(object)
		k := Key{m.text("id"), jwk.text("kty"), jwk.text("crv"), jwk.text("x"), jwk.text("y")}
		owner, _, _ := strings.Cut(k.ID, "#")
		if owner != did || m.text("controller") != "" && m.text("controller") != did || k.Type != "EC" ||
			!slices.Contains(curves, k.Curve) {
			skipped++
			continue
		}
		keys = append(keys, k)
	}
	return keys, skipped
}
