package member

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/internal/webauthn"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/problem"
	"github.com/verge-id/verge/core/web"
)

// Passkey is a passkey of a member.
type Passkey struct {
	ID       string     `json:"id"`             // psk_ and 16 hexadecimal digits of the credential id's hash
	Name     string     `json:"name,omitempty"` // as the member named it
	Created  time.Time  `json:"created"`
	LastUsed *time.Time `json:"last_used,omitempty"`

	// Blocked is the time at which its counter revealed a copy. A blocked passkey cannot sign in.
	Blocked *time.Time `json:"blocked,omitempty"`

	Credential credential `json:"credential"`
}

// credential is the stored form of a webauthn.Credential.
type credential struct {
	ID       []byte `json:"id"`
	Key      []byte `json:"key"` // the public key, in COSE
	Counter  uint32 `json:"counter,omitempty"`
	Eligible bool   `json:"backup_eligible,omitempty"`
	BackedUp bool   `json:"backed_up,omitempty"`
}

const passkeyIDs = "psk_"

// proofLife is the time after a sign-in during which a member may add a passkey. A passkey is permanent, so
// access to an unattended browser must not be enough to add one.
const proofLife = 10 * time.Minute

// proven reports whether the session was opened with a passkey recently.
func (r *Registry) proven(s Session) bool { return r.now().Sub(s.Opened) < proofLife }

// maxPasskeys is the maximum number of passkeys of a member.
const maxPasskeys = 10

func newPasskey(c webauthn.Credential, name string, now time.Time) Passkey {
	return Passkey{ID: hashID(passkeyIDs, hashOf(string(c.ID))), Name: name, Created: now.UTC(),
		Credential: credential{c.ID, c.PublicKey, c.Counter, c.BackupEligible, c.BackedUp}}
}

// freeName returns the default name of a new passkey, such as "Passkey 2".
func freeName(of []Passkey) string {
	for n := 1; ; n++ {
		name := "Passkey " + strconv.Itoa(n)
		if !slices.ContainsFunc(of, func(p Passkey) bool { return p.Name == name }) {
			return name
		}
	}
}

func (p Passkey) item() string { return passkeyItems + hashOf(string(p.Credential.ID)) }

// stored returns the credential for webauthn. handle is the user handle of its member.
func (p Passkey) stored(handle []byte) webauthn.Credential {
	c := p.Credential
	return webauthn.Credential{ID: c.ID, PublicKey: c.Key, Counter: c.Counter,
		BackupEligible: c.Eligible, BackedUp: c.BackedUp, UserHandle: handle}
}

// has reports whether the member has an unblocked passkey with that id.
func (m Member) has(id string) bool {
	return slices.ContainsFunc(m.Passkeys, func(p Passkey) bool { return p.ID == id && p.Blocked == nil })
}

// Ceremony is the data that a page needs to request a passkey's response.
type Ceremony struct {
	Options []byte // JSON for the browser's navigator.credentials
	Form    string // sent back unchanged with the response
}

// challengeLife is the time for which a form is valid.
const challengeLife = 5 * time.Minute

// challenge is the sealed content of a form. It is not stored until a passkey has responded.
type challenge struct {
	Kind   string     `json:"kind"`           // one of the constants below
	For    string     `json:"for,omitempty"`  // hash of the invitation's secret or of the session's cookie
	Bytes  []byte     `json:"bytes"`          // that the passkey signs
	Handle []byte     `json:"user,omitempty"` // of the future member
	Issued token.Time `json:"iat"`
}

// Kinds of ceremonies. A form of one kind is rejected by the others.
const (
	toEnrol  = "enrol"
	toSignIn = "sign-in"
	toAdd    = "add"
)

const formPrefix = "vrg_form_"

func (r *Registry) newChallenge(kind, of string, handle []byte) (challenge, string, error) {
	if r.Passkeys == nil {
		return challenge{}, "", ErrNoPasskeys
	}
	c := challenge{Kind: kind, For: of, Bytes: make([]byte, 32), Handle: handle, Issued: token.At(r.now())}
	if _, err := io.ReadFull(r.random, c.Bytes); err != nil {
		return challenge{}, "", fmt.Errorf("member: reading randomness: %w", err)
	}
	b, err := json.Marshal(c)
	if err != nil {
		return challenge{}, "", fmt.Errorf("member: %w", err)
	}
	sealed, err := r.sealer.Seal(token.Ceremony, b)
	if err != nil {
		return challenge{}, "", err
	}
	return c, token.EncodeText(formPrefix, sealed), nil
}

// readForm returns the challenge of a form that was created for this kind and purpose. It returns ErrForm,
// ErrLate, ErrNoPasskeys or host.ErrKeyAwaited.
func (r *Registry) readForm(form, kind, of string) (c challenge, err error) {
	if r.Passkeys == nil {
		return challenge{}, ErrNoPasskeys
	}
	sealed, ok := token.DecodeText(formPrefix, form)
	if !ok {
		return challenge{}, ErrForm
	}
	b, until, err := r.sealer.Open(token.Ceremony, sealed)
	if errors.Is(err, host.ErrNotAuthentic) {
		err = ErrForm
	}
	if err != nil {
		return challenge{}, err
	}
	if json.Unmarshal(b, &c) != nil || c.Kind != kind || c.For != of ||
		!host.ValidAt(c.Issued.Time(), until) {
		return challenge{}, ErrForm
	}
	if age := r.now().Sub(c.Issued.Time()); age >= challengeLife || age < -host.ClockMargin {
		return challenge{}, ErrLate
	}
	return c, nil
}

// use adds to tx that the challenge is used, which is possible once. The mark is kept longer than the
// form is valid, even if clocks differ.
func (c challenge) use(tx *kv.Tx) {
	name := c.item()
	tx.Checks = append(tx.Checks, kv.Check{Name: name})
	tx.Puts = append(tx.Puts, kv.Put{Name: name, Value: mark,
		Expires: c.Issued.Time().Add(challengeLife + 2*host.ClockMargin)})
}

func (c challenge) item() string {
	sum := sha256.Sum256(c.Bytes)
	return usedItems + hex.EncodeToString(sum[:])
}

// BeginEnrolment returns the data that the page of an invitation needs to create a new member's first
// passkey. shown is the passkey's label on the device: the person and the publisher. The invitation stays
// unused. It returns ErrSpent like ReadInvitation.
func (r *Registry) BeginEnrolment(ctx context.Context, secret, shown string) (Invitation, Ceremony, error) {
	i, _, err := r.invitation(ctx, secret)
	if err != nil {
		return Invitation{}, Ceremony{}, err
	}
	handle, err := newHandle(r.random)
	if err != nil {
		return Invitation{}, Ceremony{}, err
	}
	c, form, err := r.newChallenge(toEnrol, hashOf(secret), handle)
	if err != nil {
		return Invitation{}, Ceremony{}, err
	}
	options, err := webauthn.CreationOptions(*r.Passkeys, c.Bytes, webauthn.User{Handle: handle, Name: shown,
		DisplayName: shown}, nil)
	if err != nil {
		return Invitation{}, Ceremony{}, err
	}
	return i.Invitation, Ceremony{options, form}, nil
}

// Enrol uses an invitation: it creates the member with their first passkey, and opens a session. form comes
// from BeginEnrolment, and response is the browser's response to its options. The error is a problem.List if
// the name is invalid, a *webauthn.Rejection if the response is invalid, ErrForm, ErrLate, ErrKnownPasskey,
// or ErrSpent as in ReadInvitation.
func (r *Registry) Enrol(
	ctx context.Context, secret, form, name string, response []byte, audit AuditOf[Session],
) (cookie string, s Session, err error) {
	i, version, err := r.invitation(ctx, secret)
	if err != nil {
		return "", Session{}, err
	}
	c, err := r.readForm(form, toEnrol, hashOf(secret))
	if err != nil {
		return "", Session{}, err
	}
	var wrong problem.List
	checkName(&wrong, name)
	if err := wrong.Err(); err != nil {
		return "", Session{}, err
	}
	made, err := webauthn.VerifyRegistration(*r.Passkeys, c.Bytes, response)
	if err != nil {
		return "", Session{}, err
	}
	first := newPasskey(made, freeName(nil), r.now())
	m := Member{ID: idOf(c.Handle), Publisher: i.Publisher, Name: name, Role: i.Role, Created: r.now().UTC(),
		Passkeys: []Passkey{first}}

	tx := i.spend(invitationItems+hashOf(secret), version)
	c.use(&tx)
	first.claim(&tx, m.ID)
	if err := r.replace(&tx, m); err != nil { // without a version: the member must not exist yet
		return "", Session{}, err
	}
	tx.Puts = append(tx.Puts, kv.Put{Name: ofMember(m.Publisher, m.ID), Value: mark})
	cookie, s, err = r.open(ctx, sessionOf(m, first), nil, tx, audit)
	if found, overtaken := beaten(err); overtaken {
		err = ErrSpent // another request was faster
		if _, known := found.Item(first.item()); known {
			err = ErrKnownPasskey
		}
	}
	return cookie, s, err
}

// claim adds to tx that the passkey belongs to this member only.
func (p Passkey) claim(tx *kv.Tx, member string) {
	tx.Checks = append(tx.Checks, kv.Check{Name: p.item()})
	tx.Puts = append(tx.Puts, kv.Put{Name: p.item(), Value: []byte(member)})
}

func sessionOf(m Member, by Passkey) session {
	return session{Kind: KindMember, ID: m.ID, Name: m.Name, Role: m.Role, Publisher: m.Publisher,
		Passkey: by.ID, Epoch: m.Epoch}
}

// BeginSignIn returns the data that the sign-in page needs. It names no member: the device offers its
// passkeys.
func (r *Registry) BeginSignIn() (Ceremony, error) {
	c, form, err := r.newChallenge(toSignIn, "", nil)
	if err != nil {
		return Ceremony{}, err
	}
	options, err := webauthn.RequestOptions(*r.Passkeys, c.Bytes)
	return Ceremony{options, form}, err
}

// SignIn opens a session for the member whose passkey has responded. If the response is not accepted, the
// error is a *webauthn.Rejection, ErrForm, ErrLate or ErrUnknownPasskey. A passkey that was copied is
// blocked.
func (r *Registry) SignIn(
	ctx context.Context, form string, response []byte, audit AuditOf[Session],
) (cookie string, s Session, err error) {
	c, err := r.readForm(form, toSignIn, "")
	if err != nil {
		return "", Session{}, err
	}
	credentialID, err := webauthn.CredentialID(response)
	if err != nil {
		return "", Session{}, err
	}
	err = retry("the member", func() error {
		m, n, err := r.ownerOf(ctx, credentialID)
		if err != nil {
			return err
		}
		used := &m.Passkeys[n]
		handle, _ := handleOf(m.ID)
		proof, err := webauthn.VerifyAssertion(ctx, r.verify, *r.Passkeys, c.Bytes,
			used.stored(handle), response)
		if errors.Is(err, webauthn.ErrCounter) {
			return errors.Join(err, r.block(ctx, m, n, c)) // if another commit came first, retry
		}
		if err != nil {
			return err
		}
		now := r.now().UTC()
		used.LastUsed, used.Credential.Counter, used.Credential.BackedUp = &now, proof.Counter, proof.BackedUp
		tx := kv.Tx{}
		c.use(&tx)
		if err := r.replace(&tx, m); err != nil {
			return err
		}
		cookie, s, err = r.open(ctx, sessionOf(m, *used), nil, tx, audit)
		if found, overtaken := beaten(err); overtaken {
			if _, again := found.Item(c.item()); again {
				return ErrLate
			}
		}
		return err
	})
	if err != nil {
		return "", Session{}, err
	}
	return cookie, s, nil
}

// ownerOf returns the member who has a passkey, and the index of the passkey.
func (r *Registry) ownerOf(ctx context.Context, credentialID []byte) (m Member, n int, err error) {
	item, err := r.kv.Get(ctx, key(passkeyItems+hashOf(string(credentialID))))
	if err == nil {
		m, err = r.Member(ctx, "", string(item.Value))
	}
	if errors.Is(err, kv.ErrNotFound) || errors.Is(err, web.ErrNotFound) {
		err = ErrUnknownPasskey
	}
	if err != nil {
		return Member{}, 0, err
	}
	n = slices.IndexFunc(m.Passkeys, func(p Passkey) bool {
		return slices.Equal(p.Credential.ID, credentialID) && p.Blocked == nil
	})
	if n < 0 {
		return Member{}, 0, ErrUnknownPasskey
	}
	return m, n, nil
}

// block blocks a passkey whose counter did not increase: a copy exists. A response to a challenge from before
// the passkey's last use may only have been overtaken by that use, so it does not block the passkey.
func (r *Registry) block(ctx context.Context, m Member, n int, c challenge) error {
	p := &m.Passkeys[n]
	if p.LastUsed != nil && !c.Issued.Time().After(*p.LastUsed) {
		return nil
	}
	now := r.now().UTC()
	p.Blocked = &now
	r.log.Warn("passkey blocked: a copy exists", "member", m.ID, "passkey", p.ID)
	tx := kv.Tx{}
	if err := r.replace(&tx, m); err != nil {
		return err
	}
	return r.commitOnce(ctx, tx)
}

// BeginPasskey returns the data that a page needs so that the member of the session can create another
// passkey. It returns ErrProof if they signed in longer than proofLife ago.
func (r *Registry) BeginPasskey(ctx context.Context, s Session) (Ceremony, error) {
	if r.Passkeys != nil && !r.proven(s) {
		return Ceremony{}, ErrProof
	}
	m, err := r.Member(ctx, s.Publisher, s.ID)
	if err != nil {
		return Ceremony{}, err
	}
	handle, _ := handleOf(m.ID)
	c, form, err := r.newChallenge(toAdd, s.name, nil)
	if err != nil {
		return Ceremony{}, err
	}
	var has [][]byte
	for _, p := range m.Passkeys {
		has = append(has, p.Credential.ID)
	}
	options, err := webauthn.CreationOptions(*r.Passkeys, c.Bytes, webauthn.User{Handle: handle, Name: m.Name,
		DisplayName: m.Name}, has)
	return Ceremony{options, form}, err
}

// AddPasskey adds a passkey to the member of the session. form comes from BeginPasskey in the same session.
// If name is empty, the passkey gets a default name. The error is as in Enrol, or ErrTooMany, or ErrProof as
// in BeginPasskey.
func (r *Registry) AddPasskey(
	ctx context.Context, s Session, form, name string, response []byte, audit AuditOf[Member],
) (Member, error) {
	c, err := r.readForm(form, toAdd, s.name)
	if err != nil {
		return Member{}, err
	}
	if !r.proven(s) {
		return Member{}, ErrProof
	}
	var wrong problem.List
	if name != "" {
		checkName(&wrong, name)
	}
	if err := wrong.Err(); err != nil {
		return Member{}, err
	}
	made, err := webauthn.VerifyRegistration(*r.Passkeys, c.Bytes, response)
	if err != nil {
		return Member{}, err
	}
	added := newPasskey(made, name, r.now())
	return r.change(ctx, s.Publisher, s.ID, audit, func(m *Member, tx *kv.Tx) error {
		if !s.of(*m) {
			return ErrNoSession
		}
		if len(m.Passkeys) >= maxPasskeys {
			return ErrTooMany
		}
		if added.Name = name; name == "" {
			added.Name = freeName(m.Passkeys)
		}
		m.Passkeys = append(m.Passkeys, added)
		c.use(tx)
		added.claim(tx, m.ID)
		return r.fresh(ctx, c, added)
	})
}

// fresh returns an error if the challenge was used or the passkey is known. The commit checks the same again.
func (r *Registry) fresh(ctx context.Context, c challenge, p Passkey) error {
	for _, mark := range []struct {
		name  string
		taken error
	}{{c.item(), ErrLate}, {p.item(), ErrKnownPasskey}} {
		_, err := r.kv.Get(ctx, key(mark.name))
		if err == nil {
			return mark.taken
		}
		if !errors.Is(err, kv.ErrNotFound) {
			return err
		}
	}
	return nil
}

// RemovePasskey removes a passkey of the member of the session, and ends the sessions that it opened. It
// returns ErrLastPasskey if the member could no longer sign in.
func (r *Registry) RemovePasskey(
	ctx context.Context, s Session, id string, audit AuditOf[Member],
) (Member, error) {
	return r.change(ctx, s.Publisher, s.ID, audit, func(m *Member, tx *kv.Tx) error {
		if !s.of(*m) {
			return ErrNoSession
		}
		n := slices.IndexFunc(m.Passkeys, func(p Passkey) bool { return p.ID == id })
		if n < 0 {
			return web.ErrNotFound
		}
		tx.Deletes = append(tx.Deletes, m.Passkeys[n].item())
		m.Passkeys = slices.Delete(m.Passkeys, n, n+1)
		if !slices.ContainsFunc(m.Passkeys, func(p Passkey) bool { return p.Blocked == nil }) {
			return ErrLastPasskey
		}
		return nil
	})
}
