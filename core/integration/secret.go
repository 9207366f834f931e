package integration

import (
	"encoding/base64"
	"fmt"
	"io"
	"strings"

	secrets "github.com/verge-id/verge/core/secret"
)

// Someone who has one signed event can guess a webhook secret that a person made up: they try words and
// years until the signature matches. Nothing slows them down.

// minSecret is the least length of a webhook secret in bytes. minUnguessed is how many bytes must
// remain when everything that guessers try first is removed.
const (
	minSecret    = 16
	minUnguessed = 10
)

// guessed are words that people use in secrets. A longer word comes before each shorter word that it
// contains.
var guessed = []string{
	"supersecret", "changeme", "password", "passwort", "passw0rd", "webhooks", "webhook", "whsec", "signing",
	"production", "staging", "integration", "verification", "verify", "verge", "publisher", "example",
	"default",
	"secret", "shop", "store", "token", "admin", "welcome", "letmein", "qwertz", "qwerty", "azerty", "asdf",
	"spring", "summer", "autumn", "winter", "january", "february", "march", "april", "june", "july", "august",
	"september", "october", "november", "december", "monday", "tuesday", "wednesday", "thursday", "friday",
	"saturday", "sunday", "abcdef", "123456789", "12345678", "1234567", "123456", "12345", "1234", "0000",
	"test", "prod", "demo", "hook", "key", "live", "api", "dev", "www", "com", "org",
}

// SecretProblem returns why a webhook secret will not do, or "" if it will. It must be neither too long to
// keep nor too easy to guess. names are the names of the publisher and the integration, which guessers try
// first. In dev only the length counts.
func SecretProblem(secret string, dev bool, names ...string) string {
	if why := secrets.Problem(secret); why != "" && secret != "" {
		return why
	}
	if len(secret) > maxSecret {
		return fmt.Sprintf("it has %d bytes; at most %d are allowed", len(secret), maxSecret)
	}
	if len(secret) < minSecret {
		return fmt.Sprintf("it has %d characters; it must have at least %d", len(secret), minSecret)
	}
	if dev {
		return ""
	}
	left := strings.ToLower(secret)
	for _, name := range names {
		for part := range strings.FieldsFuncSeq(strings.ToLower(name), separates) {
			if len(part) > 2 {
				left = strings.ReplaceAll(left, part, " ")
			}
		}
	}
	for _, word := range guessed {
		left = strings.ReplaceAll(left, word, " ")
	}
	unguessed := 0
	for part := range strings.FieldsFuncSeq(left, separates) {
		if !isYear(part) {
			unguessed += len(part) - repeated(part)
		}
	}
	if unguessed < minUnguessed {
		return "it consists of easily guessed parts, such as words, years and repetitions; " +
			"`verge webhook secret` creates a safe one"
	}
	return ""
}

func separates(r rune) bool { return !('a' <= r && r <= 'z' || '0' <= r && r <= '9' || r > 0x7f) }

func isYear(s string) bool {
	return len(s) == 4 && (strings.HasPrefix(s, "19") || strings.HasPrefix(s, "20"))
}

// repeated counts the characters of s that equal one of the two before them.
func repeated(s string) (n int) {
	for i := 1; i < len(s); i++ {
		if s[i] == s[i-1] || i > 1 && s[i] == s[i-2] {
			n++
		}
	}
	return n
}

// GenerateSecret makes a webhook secret of 256 random bits, in the form of Standard Webhooks (contract 51).
func GenerateSecret(random io.Reader) (string, error) {
	var b [32]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("integration: reading randomness: %w", err)
	}
	return "whsec_" + base64.StdEncoding.EncodeToString(b[:]), nil
}
