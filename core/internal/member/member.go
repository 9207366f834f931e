package member

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/verge-id/verge/core/internal/audit"
	"github.com/verge-id/verge/core/internal/brand"
	"github.com/verge-id/verge/core/problem"
)

// Role is the set of rights of a person. Operators' roles apply to every publisher, members' roles to one.
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

// Actor is the person or program that acts.
type Actor struct {
	Kind      string // one of the Kind constants
	ID        string // of the operator token, the member, or the link
	Name      string
	Role      Role
	Publisher string // the only publisher that the actor sees; "": all
	Token     string // of a link: the id of the operator token that created it
}

// operator reports whether a is an operator for all publishers.
func (a Actor) operator() bool { return a.Kind == KindOperator && a.Publisher == "" }

// Member is a person who works for a publisher.
type Member struct {
	ID        string    `json:"id"` // mem_ and 32 hexadecimal digits
	Publisher string    `json:"publisher_id"`
	Name      string    `json:"name"`
	Role      Role      `json:"role"`
	Created   time.Time `json:"created"`
	Passkeys  []Passkey `json:"credentials"`

	// Epoch is the number of times that the member was signed out everywhere. Sessions of earlier epochs have
	// ended.
	Epoch int `json:"epoch,omitempty"`

	Version string `json:"-"` // of the record
}

// LastSeen returns the time of the last sign-in, or zero if the member has not signed in since enrolment.
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
	handleBytes  = 16 // of a member's id, which is the user handle of the member's passkeys
)

func newHandle(random io.Reader) ([]byte, error) {
	handle := make([]byte, handleBytes)
	if _, err := io.ReadFull(random, handle); err != nil {
		return nil, fmt.Errorf("member: reading randomness: %w", err)
	}
	return handle, nil
}

func idOf(handle []byte) string { return memberPrefix + hex.EncodeToString(handle) }

// handleOf returns the user handle in a member's id. ok is false if id is not a member's id.
func handleOf(id string) (handle []byte, ok bool) {
	digits, ok := strings.CutPrefix(id, memberPrefix)
	handle, err := hex.DecodeString(digits)
	if !ok || err != nil || len(handle) != handleBytes || idOf(handle) != id {
		return nil, false
	}
	return handle, true
}

// hashID returns an id that names a record by the start of its hash, as for API keys.
func hashID(prefix, hash string) string { return prefix + hash[:idDigits] }

// hashPrefix returns the start of the hash in an id of hashID. ok is false if id has another form.
func hashPrefix(prefix, id string) (digits string, ok bool) {
	digits, ok = strings.CutPrefix(id, prefix)
	if !ok || len(digits) != idDigits || strings.Trim(digits, "0123456789abcdef") != "" {
		return "", false
	}
	return digits, true
}

const idDigits = 16

// hashOf returns the stored hash of a secret. A plain hash is enough: a secret has 256 random bits and cannot
// be guessed.
func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// checkName adds the errors of a name that a person entered.
func checkName(wrong *problem.List, name string) {
	if name = strings.TrimSpace(name); name == "" {
		wrong.Add("name", "name is missing; people see it in the list of members and in the audit")
	} else if text := brand.NameProblem(name); text != "" {
		wrong.Add("name", "%s", text)
	}
}

// checkRole adds an error if the role is not in of.
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
