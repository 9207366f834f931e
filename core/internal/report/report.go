// Package report has the document about a period of the service, for regulators: the methods, the settings
// and their changes, the counts of outcomes, and how long data is kept. It has no data of a person. Package
// operate fills a [Document]; [Document.Sign] returns it as JSON and as a page, each with a signature.
package report

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/verge-id/verge/core/internal/signature"
	"github.com/verge-id/verge/core/internal/timestamp"
)

//go:generate go run ../../../cmd/generate/pages

// KeyName is the host's name of the key that signs reports.
const KeyName = "report"

// format is the version of the JSON.
const format = 1

// Config is the part of a document that does not depend on the request.
type Config struct {
	Key       []byte // the public key, a SubjectPublicKeyInfo on P-256; nil: the service makes no reports
	Mode      string // production, test or dev
	Attempts  int
	Software  Software
	Retention []Retention
}

// Software is the version of the service. An empty field is not known.
type Software struct {
	Version string `json:"version"`
	Digest  string `json:"digest"` // SHA-256 of the binary or module
}

// Retention is the time for which one kind of data is kept.
type Retention struct {
	Data string `json:"data"`
	Kept string `json:"kept"`
}

// Document is a report. Days are in UTC.
type Document struct {
	Format     int               `json:"format"`
	Service    string            `json:"service"` // base_url
	Publisher  string            `json:"publisher_id,omitempty"`
	From       string            `json:"from"`
	To         string            `json:"to"`
	Created    time.Time         `json:"created_at"`
	Mode       string            `json:"mode"`
	Software   Software          `json:"software"`
	Key        string            `json:"key_sha256"` // of the public key that signs, in DER
	Attempts   int               `json:"attempts"`   // of the service
	Outcomes   map[string]uint64 `json:"outcomes"`
	Methods    []Method          `json:"methods"`
	Publishers []Publisher       `json:"publishers"`
	Changes    []Change          `json:"changes"` // the oldest first
	Omitted    int               `json:"omitted"` // other entries of the audit, such as sign-ins
	Retention  []Retention       `json:"retention"`
	Notes      []string          `json:"notes"`
}

// Method is a configured method.
type Method struct {
	Name     string  `json:"name"`
	Kind     string  `json:"kind"`
	Level    string  `json:"level"`
	Sandbox  bool    `json:"sandbox"`
	Settings []Value `json:"settings"`
}

// Value is a setting with its value.
type Value struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Publisher is a publisher with its integrations.
type Publisher struct {
	ID           string        `json:"publisher_id"`
	Name         string        `json:"name"`
	Archived     *time.Time    `json:"archived_at,omitempty"`
	Integrations []Integration `json:"integrations"`
}

// Integration is an integration with its settings and the counts of the period.
type Integration struct {
	ID       string            `json:"integration_id"`
	Name     string            `json:"name"`
	Archived *time.Time        `json:"archived_at,omitempty"`
	Settings []Value           `json:"settings"`
	Outcomes map[string]uint64 `json:"outcomes"`
	Days     []Day             `json:"days"` // without those that count nothing
}

// Day has the counts of a day.
type Day struct {
	Day      string            `json:"day"`
	Outcomes map[string]uint64 `json:"outcomes"`
}

// Change is a change of a setting, without its actor's name.
type Change struct {
	At        time.Time `json:"at"`
	By        string    `json:"by"` // the kind of actor
	Publisher string    `json:"publisher_id,omitempty"`
	Operation string    `json:"operation"`
	Target    string    `json:"target,omitempty"`
	Fields    []Field   `json:"fields,omitempty"`
}

// Field is a setting before and after a change.
type Field struct {
	Name string `json:"name"`
	From string `json:"from"`
	To   string `json:"to"`
}

// Signed is a document in its two forms. A signature is by ECDSA on P-256 with SHA-256, in DER and base64.
type Signed struct {
	Document          string `json:"document"` // JSON
	DocumentSignature string `json:"document_signature"`
	Page              string `json:"page"` // HTML
	PageSignature     string `json:"page_signature"`
	PublicKey         string `json:"public_key"` // PEM
}

// SignFunc is host.Host's Sign.
type SignFunc func(ctx context.Context, key, algorithm string, message []byte) ([]byte, error)

// Sign returns both forms of the document, each with a signature by the host's key.
func (d *Document) Sign(ctx context.Context, key []byte, sign SignFunc) (Signed, error) {
	digest := sha256.Sum256(key)
	d.Format, d.Key = format, hex.EncodeToString(digest[:])
	compact, err := timestamp.JSON(d)
	if err != nil {
		return Signed{}, err
	}
	var document, shown bytes.Buffer
	if err := json.Indent(&document, compact, "", "  "); err != nil {
		return Signed{}, err
	}
	document.WriteByte('\n')
	if err := page(d).Render(ctx, &shown); err != nil {
		return Signed{}, err
	}
	s := Signed{Document: document.String(), Page: shown.String(), PublicKey: pem(key)}
	if s.DocumentSignature, err = signed(ctx, sign, s.Document); err != nil {
		return Signed{}, err
	}
	s.PageSignature, err = signed(ctx, sign, s.Page)
	return s, err
}

func signed(ctx context.Context, sign SignFunc, text string) (string, error) {
	flat, err := sign(ctx, KeyName, "ES256", []byte(text))
	if err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(signature.ASN1(flat)), nil
}

// pem returns a public key as PEM. encoding/pem would cost a guest more.
func pem(spki []byte) string {
	text := "-----BEGIN PUBLIC KEY-----\n"
	for body := base64.StdEncoding.EncodeToString(spki); body != ""; {
		n := min(64, len(body))
		text += body[:n] + "\n"
		body = body[n:]
	}
	return text + "-----END PUBLIC KEY-----\n"
}
