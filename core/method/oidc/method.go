// Package oidc is the kind of method that verifies by an OpenID provider (contract 36): the browser logs in
// there, and a claim that the provider signs proves the age.
//
// A method of this kind redirects the browser with a pushed request if the provider supports it, and always
// with PKCE, state and nonce. When the browser returns with a code, it fetches the ID token and accepts it
// only after every check of verifyIDToken. Then proof.go decides by one claim. Tokens and claims are neither
// stored nor logged.
//
// A configuration names at least the provider, the client, and a preset or a proof:
//
//	[[methods]]
//	name = "bankid"
//	kind = "oidc"
//	[methods.oidc]
//	preset = "mitid-age"
//	issuer = "https://provider.example"
//	client_id = "verge"
//	client_secret_file = "bankid-secret"
//
// The claim that proves an age differs between providers. Presets contain it for some (presets.json). To add
// one, add an entry and a vector in testdata/presets.json.
package oidc

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/verge-id/verge/core/internal/fetchcache"
	"github.com/verge-id/verge/core/internal/strictjson"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/problem"
)

// kindName is the name of the kind.
const kindName = "oidc"

// Kind describes it.
var Kind = method.Kind{
	Name:    kindName,
	Level:   "L2",
	Secrets: []string{secretName},
	Keys:    []string{keyName},
	URLs:    []string{"issuer"},
	Returns: []string{"code", "error", "iss"},
	Check: func(c method.Config) (wrong problem.List) {
		_, wrong = readSettings(c)
		return wrong
	},
	Overrides: func(c method.Config) []method.Override {
		s, _ := readSettings(c)
		if len(s.acrValues) == 0 {
			return nil
		}
		return []method.Override{{Name: acrName, Label: "Accepted sign-ins (acr)", Values: s.acrValues,
			Hint: "How users sign in at the provider. Without a choice, all of them count."}}
	},
	Narrow: narrow,
	Oldest: func(c method.Config) int {
		s, _ := readSettings(c)
		return s.oldest()
	},
	Signs: func(c method.Config) map[string]string {
		if s, _ := readSettings(c); s.auth == authKey {
			return map[string]string{keyName: s.keyAlg}
		}
		return nil
	},
	Decrypts: func(c method.Config) map[string]string {
		if s, _ := readSettings(c); s.encryptsIDToken || s.encryptsUserinfo {
			return map[string]string{keyName: decrypts[s.keyAlg]}
		}
		return nil
	},
	Open: open,
}

// client is one configured method.
type client struct {
	settings
	host     method.Host
	metadata fetchcache.Document[metadata]
	keys     fetchcache.Document[keySet] // of the provider
	signers  fetchcache.Document[keySet] // of the signer of a credential inside the claims
}

func open(c method.Config, h method.Host) (method.Method, error) {
	s, wrong := readSettings(c)
	if err := wrong.Err(); err != nil {
		return nil, fmt.Errorf("oidc: %w", err)
	}
	encrypts := s.encryptsIDToken || s.encryptsUserinfo
	if s.key != "" && h.Sign == nil || encrypts && h.Decrypt == nil {
		return nil, errors.New("oidc: the settings need a private key, and the host has none")
	}
	return &client{settings: s, host: h}, nil
}

// Begin implements method.Method. The provider must be there, and a claim must prove the session's age.
func (c *client) Begin(ctx context.Context, s method.Session) error {
	if _, err := c.proofFor(s.MinimumAge); err != nil {
		return err
	}
	if _, err := c.acrFor(s); err != nil {
		return err
	}
	_, err := c.discover(ctx)
	return err
}

// begin is the one form of the page.
const begin = "begin"

// Show implements method.Method.
func (*client) Show(method.Session, []byte) method.View { return method.View{Choices: []string{begin}} }

// Act implements method.Method.
func (c *client) Act(ctx context.Context, s method.Session, step method.Step) (method.Decision, error) {
	if step.Back {
		return c.back(ctx, s, step)
	}
	if step.Form.Get("outcome") != begin {
		return method.Decision{}, method.ErrStep
	}
	e, err := newAuthRequest(c.host.Random)
	if err != nil {
		return method.Decision{}, err
	}
	if c.maxAge >= 0 {
		e.began = c.host.Now()
	}
	p, err := c.proofFor(s.MinimumAge)
	if err != nil {
		return method.Decision{}, err
	}
	acr, err := c.acrFor(s)
	if err != nil {
		return method.Decision{}, err
	}
	e.asked = c.asked(p, acr)
	address, err := c.leave(ctx, s, e, p, acr)
	if err != nil {
		return method.Decision{}, err
	}
	return method.Decision{
		Verdict: method.Pending,
		State:   e.state(),
		Leave:   &method.Leave{URL: address, Handle: e.handle},
	}, nil
}

// back decides on the return of the browser from the provider.
func (c *client) back(ctx context.Context, s method.Session, step method.Step) (method.Decision, error) {
	e, ok := readAuthRequest(step.State)
	if !ok {
		return method.Decision{}, method.ErrOutdated
	}
	acr, err := c.acrFor(s)
	if err != nil {
		return method.Decision{}, err
	}
	p, err := c.askedProof(e.asked, acr, s.MinimumAge)
	if err != nil {
		return method.Decision{}, err
	}
	meta, err := c.discover(ctx)
	if err != nil {
		return method.Decision{}, err
	}

	code, err := c.readReturn(step.Form, meta)
	switch {
	case errors.Is(err, errCancelled):
		return method.Decision{Verdict: method.Cancelled}, nil
	case err != nil:
		return method.Decision{}, err
	}
	granted, err := c.exchange(ctx, meta, s.ReturnURL, code, e.verifier)
	if err != nil {
		return method.Decision{}, err
	}
	claims, err := c.verifyIDToken(ctx, meta, granted.idToken, e, acr)
	if err != nil {
		return method.Decision{}, err
	}
	if c.userinfo {
		if claims, err = c.fetchUserinfo(ctx, meta, granted, claims); err != nil {
			return method.Decision{}, err
		}
	}
	if c.credential != nil {
		var there bool
		claims, there, err = c.openCredential(ctx, claims)
		if err != nil {
			return method.Decision{}, err
		}
		if !there {
			d := denied(method.AttemptFailed, "credential.claim", c.credential.claim)
			d.Cause = claimAbsent
			return d, nil
		}
	}
	if claims.IsRepeated(p.names()...) {
		return method.Decision{}, fmt.Errorf("oidc: a claim of the proof occurs twice: %w",
			rejected(badClaims))
	}
	return p.judge(claims.Object, s.MinimumAge, c.host.Now()), nil
}

var errCancelled = errors.New("oidc: the user cancelled at the provider")

// readReturn returns the code of the browser's return. Its error is errCancelled if the user cancelled.
func (c *client) readReturn(query url.Values, meta metadata) (code string, err error) {
	switch iss := query.Get("iss"); {
	case iss == c.issuer:
	case query.Has("iss"):
		return "", foreign(badIssuer)
	case meta.announcesIssuer:
		return "", foreign(noIssuer)
	}
	code = query.Get("code")
	switch reason := query.Get("error"); {
	case query.Has("error") == query.Has("code"), code == "" && reason == "", !isPrintable(code, maxCode):
		return "", foreign(badReturn)
	case reason == "access_denied":
		return "", errCancelled
	case reason != "":
		known, ok := returnErrors[reason]
		if !ok {
			known = otherError
		}
		return "", fmt.Errorf("oidc: the provider sent the browser back with an error: %w", rejected(known))
	}
	return code, nil
}

// foreign rejects a return that cannot belong to this request: the page has no such step.
func foreign(reason string) error {
	return fmt.Errorf("oidc: the return does not belong to this request: %w, %w", method.ErrStep,
		rejected(reason))
}

// maxCode is the maximum number of bytes of an authorization code. OAuth leaves the size to the provider.
const maxCode = 8 << 10

// isPrintable reports whether s has printable ASCII alone, including spaces, as a code may (RFC 6749, A.11),
// and at most that many bytes. "" is printable.
func isPrintable(s string, most int) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return len(s) <= most
}

// isVisible is isPrintable without spaces.
func isVisible(s string, most int) bool { return isPrintable(s, most) && !strings.Contains(s, " ") }

// authRequest is one authorization request.
type authRequest struct {
	nonce    string // binds the ID token to the request
	verifier string // of PKCE: binds the code to it (RFC 7636)
	handle   string // the state that the browser carries; the core keeps it
	asked    string // the digest of client.asked

	// began is the time of the browser's leaving, in whole seconds. It is zero without max_age.
	began time.Time
}

// Lengths in bytes, before base64url. RFC 7636 asks for 43 characters, which are 32 bytes.
const (
	nonceSize    = 24
	verifierSize = 32
	askedSize    = 16
	dateSize     = 8 // 0 without max_age

	// authRequestVersion is the first byte of a state. Earlier builds have written 1 and 2, without asked.
	authRequestVersion = 3
)

func newAuthRequest(random io.Reader) (authRequest, error) {
	var raw [nonceSize + verifierSize]byte
	if _, err := io.ReadFull(random, raw[:]); err != nil {
		return authRequest{}, fmt.Errorf("oidc: reading randomness: %w", err)
	}
	handle, err := method.NewHandle(random)
	if err != nil {
		return authRequest{}, err
	}
	encode := base64.RawURLEncoding.EncodeToString
	return authRequest{nonce: encode(raw[:nonceSize]), verifier: encode(raw[nonceSize:]), handle: handle}, nil
}

// state returns the bytes that the method gets back with the return: a version, the nonce, the verifier,
// asked, and began.
func (e authRequest) state() []byte {
	state := []byte{authRequestVersion}
	for _, part := range []string{e.nonce, e.verifier, e.asked} {
		raw, err := base64.RawURLEncoding.DecodeString(part)
		if err != nil {
			panic("oidc: a request that newAuthRequest has not made") // our own fault, so it must be loud
		}
		state = append(state, raw...)
	}
	began := uint64(0)
	if !e.began.IsZero() {
		began = uint64(e.began.Unix())
	}
	return binary.BigEndian.AppendUint64(state, began)
}

func readAuthRequest(state []byte) (e authRequest, ok bool) {
	const size = nonceSize + verifierSize + askedSize + dateSize
	if len(state) != 1+size || state[0] != authRequestVersion {
		return authRequest{}, false
	}
	rest := state[1:]
	next := func(n int) (part []byte) {
		part, rest = rest[:n], rest[n:]
		return part
	}
	encode := base64.RawURLEncoding.EncodeToString
	e.nonce, e.verifier = encode(next(nonceSize)), encode(next(verifierSize))
	e.asked = encode(next(askedSize))
	if began := binary.BigEndian.Uint64(rest); began > 0 {
		e.began = time.Unix(int64(began), 0)
	}
	return e, true
}

// claims are the content of a signed token or of the userinfo response.
type claims struct{ strictjson.Object }

// text returns a claim that is a string, "" if it is another type or absent.
func (c claims) text(name string) string {
	s, _ := c.Value(name).Text()
	return s
}

// Timeouts of each request to the provider. They are short because a person waits.
const (
	documentTimeout = 3 * time.Second
	requestTimeout  = 5 * time.Second
)
