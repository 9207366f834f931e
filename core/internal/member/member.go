package member

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/verge-id/verge/core/internal/audit"
	"github.com/verge-id/verge/core/problem"
)

// Role is what a person may do. The roles of operators see every publisher, those of members see one.
type Role string

// The roles. RoleViewer of a member sees one publisher; of an operator, all of them.
const (
	RoleOperator  Role = "operator"
	RoleAdmin     Role = "admin"
	RoleDeveloper Role = "developer"
	RoleViewer    Role = "viewer"
)

var (
	memberRoles   = []Role{RoleAdmin, RoleDeveloper, RoleViewer}
	operatorRoles = []Role{RoleOperator, RoleViewer}
)

// Kinds of actors, as the audit names them.
const (
	KindOperator = audit.Operator
	KindMember   = audit.Member
	KindLink     = audit.Link
)

// Actor is who acts.
type Actor struct {
	Kind      string // one of the Kind constants
	ID        string // of the operator token, the member, or the link
	Name      string
	Role      Role
	Publisher string // the one publisher that the actor sees; "": all of them
	Token     string // of a link: the id of the operator token that made it
}

// operator reports whether a stands above the members of a publisher.
func (a Actor) operator() bool { return a.Kind == KindOperator && a.Publisher == "" }

// Member is a person who works for a publisher.
type Member struct {
	ID        string    `json:"id"` // mem_ and 32 hexadecimal digits
	Publisher string    `json:"publisher_id"`
	Name      string    `json:"name"`
	Role      Role      `json:"role"`
	Created   time.Time `json:"created"`
	Passkeys  []Passkey `json:"credentials"`

	// Epoch counts how often the member was signed out everywhere. A session of an earlier epoch has ended.
	Epoch int `json:"epoch,omitempty"`

	Version string `json:"-"` // of the record
}

// LastSeen is when the member signed in last; zero: not since enrolling.
func (m Member) LastSeen() (last time.Time) {
	for _, p := range m.Passkeys {
		if p.LastUsed != nil && p.LastUsed.After(last) {
			last = *p.LastUsed
		}
	}
	return last
}

const (
	memberPrefix = "mem_"
	handleBytes  = 16 // of a member's id, which are the user handle of their passkeys
)

func newHandle(random io.Reader) ([]byte, error) {
	handle := make([]byte, handleBytes)
	if _, err := io.ReadFull(random, handle); err != nil {
		return nil, fmt.Errorf("member: reading randomness: %w", err)
	}
	return handle, nil
}

func idOf(handle []byte) string { return memberPrefix + hex.EncodeToString(handle) }

// handleOf returns the user handle of a member's id. ok is false for every other text.
func handleOf(id string) (handle []byte, ok bool) {
	digits, ok := strings.CutPrefix(id, memberPrefix)
	handle, err := hex.DecodeString(digits)
	if !ok || err != nil || len(handle) != handleBytes || idOf(handle) != id {
		return nil, false
	}
	return handle, true
}

// hashID returns an id that names something by the beginning of its hash, as keys have it.
func hashID(prefix, hash string) string { return prefix + hash[:idDigits] }

// hashPrefix returns the beginning of the hash that an id of hashID names. ok is false for every other text.
func hashPrefix(prefix, id string) (digits string, ok bool) {
	digits, ok = strings.CutPrefix(id, prefix)
	if !ok || len(digits) != idDigits || strings.Trim(digits, "0123456789abcdef") != "" {
		return "", false
	}
	return digits, true
}

const idDigits = 16

// hashOf is what the store has of a secret. A plain hash is enough, because the 256 random bits of a secret
// cannot be guessed.
func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// maxName is the length of a name in characters.
const maxName = 100

// checkName adds what is wrong with a name that a person gave.
func checkName(wrong *problem.List, name string) {
	switch {
	case strings.TrimSpace(name) == "":
		wrong.Add("name", "name is missing; people see it in the list of members and in the audit")
	case !utf8.ValidString(name) || strings.ContainsFunc(name, Unprintable):
		wrong.Add("name", "name has characters that cannot be shown; write it on one line")
	case utf8.RuneCountInString(name) > maxName:
		wrong.Add("name", "name has %d characters; it may have at most %d", utf8.RuneCountInString(name),
			maxName)
	}
}

// Unprintable reports whether a name may not have a character: one that breaks the line, or that nobody sees,
// such as those that turn the direction of the text. It allows the two joiners that some scripts need inside
// a word.
func Unprintable(r rune) bool { return !unicode.IsGraphic(r) && r != '\u200c' && r != '\u200d' }

// checkRole adds what is wrong with a role if it is none of those.
func checkRole(wrong *problem.List, role Role, of []Role) {
	if slices.Contains(of, role) {
		return
	}
	names := make([]string, len(of))
	for n, r := range of {
		names[n] = string(r)
	}
	wrong.Add("role", "role is %q; it must be one of: %s", role, strings.Join(names, ", "))
}
