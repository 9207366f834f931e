package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"time"
)

// Headers of Standard Webhooks (contract 51). They are present if a secret has the form of standardKey.
const (
	headerStandardID        = "webhook-id"
	headerStandardTimestamp = "webhook-timestamp"
	headerStandardSignature = "webhook-signature"
)

// standardVersion begins each signature in headerStandardSignature.
const standardVersion = "v1,"

// maxStandardID limits the id before it is read. Ours has 40 bytes.
const maxStandardID = 256

// standardKey returns the key of a secret that is whsec_ and the base64 of 32 bytes, with padding. Other
// secrets have no Standard Webhooks signature: its libraries could not read them.
func standardKey(secret string) (key []byte, ok bool) {
	text, ok := strings.CutPrefix(secret, "whsec_")
	if !ok || len(text) != base64.StdEncoding.EncodedLen(sha256.Size) {
		return nil, false
	}
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	return key, err == nil && len(key) == sha256.Size
}

// addStandard adds the headers of Standard Webhooks, with one signature for each secret that has a key. A
// secret that occurs twice signs once.
func addStandard(header map[string]string, id string, t time.Time, body []byte, secrets []string) {
	ts := strconv.FormatInt(t.Unix(), 10)
	var signatures []string
	signed := map[string]bool{}
	for _, secret := range secrets {
		if key, ok := standardKey(secret); ok && !signed[secret] {
			signed[secret] = true
			signatures = append(signatures, standardSignature(key, id, ts, body))
		}
	}
	if signatures == nil {
		return
	}
	header[headerStandardID] = id
	header[headerStandardTimestamp] = ts
	header[headerStandardSignature] = strings.Join(signatures, " ")
}

func standardSignature(key []byte, id, ts string, body []byte) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(id + "." + ts + "."))
	h.Write(body)
	return standardVersion + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// standard has the headers of Standard Webhooks of a request. The zero value is a request without them, or
// one that its secret does not sign by them.
type standard struct {
	key        []byte
	id, ts     string
	signatures []string
}

// parseStandard does step 1 for these headers.
func parseStandard(secret string, header map[string][]string) (s standard, err error) {
	key, ok := standardKey(secret)
	if !ok {
		return s, nil
	}
	var signatures string
	fields := []struct {
		name  string
		max   int
		value *string
	}{
		{headerStandardID, maxStandardID, &s.id},
		{headerStandardTimestamp, maxTimestampDigits, &s.ts},
		{headerStandardSignature, maxSignature, &signatures},
	}
	present := 0
	for _, f := range fields {
		lines := values(header, f.name)
		present += len(lines)
		if len(lines) == 0 {
			continue
		}
		if len(lines) > 1 {
			return s, reject(1, "%s occurs %d times; check whether a proxy doubles it", f.name, len(lines))
		}
		if len(lines[0]) > f.max {
			return s, reject(1, "%s has %d bytes, more than %d", f.name, len(lines[0]), f.max)
		}
		*f.value = lines[0]
	}
	if present == 0 {
		return standard{}, nil
	}
	for _, f := range fields {
		if *f.value == "" {
			return s, reject(1, "%s is missing, while other headers of Standard Webhooks are present; "+
				"check whether a proxy drops it", f.name)
		}
	}
	s.key, s.signatures = key, strings.Split(signatures, " ")
	return s, nil
}

// matches reports whether one of the signatures is right, or the request has no signature to check. Several
// are present while a change of the secret is staged.
func (s standard) matches(body []byte) bool {
	if s.key == nil {
		return true
	}
	want := []byte(standardSignature(s.key, s.id, s.ts, body))
	for _, signature := range s.signatures {
		if hmac.Equal([]byte(signature), want) {
			return true
		}
	}
	return false
}
