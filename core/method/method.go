// Package method is the port of verification methods. A method is a configured way to verify, such as
// "bankid". Its kind is its protocol, such as oidc. Each kind has its own folder below this package, and
// package kinds lists them all.
//
// To add a kind of your own, implement [Method], describe it by a [Kind], and append that to kinds.All in
// core.Config.Kinds. An example of package testharness is a whole kind. To add a kind to this repository,
// append it to kinds.All itself, and run methodtest.Run of testharness/internal.
//
// A method only decides. The core manages attempts, expiry, events and tokens. The core also seals a method's
// state, owns cookies, addresses and pages, and has the texts in six languages. A method therefore never sees
// the KV, a cookie or a header. A decision that comes too late does not change the session.
//
// Users' passkeys are no method of this port, although a page offers them next to methods. They are records
// in the KV, which a method never sees, and another method has decided their value. Package passkey stores
// and checks them, and package hosted has their buttons.
package method

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/verdict"
	"github.com/verge-id/verge/core/problem"
)

// Override is a setting of a method that an integration may make stricter.
type Override struct {
	Name        string // the field in method_settings
	Label, Hint string // of the console's form

	// Values are the method's own. An integration chooses some of them, and without a choice all of them
	// count. Nil: the setting is a number.
	Values []string

	Default string // the method's own number, as text
}

// Kind is a protocol of verification.
type Kind struct {
	Name    string // as in configurations: oidc
	Level   string // the highest level that it can prove: L1 or L2
	Sandbox bool   // it verifies no user, so it runs in dev and test mode only

	// Estimates means that it compares an estimate with the challenge age, and proves no exact age.
	Estimates bool

	// Secrets and Keys are the names that Config.Secrets and Config.Keys may have. A configuration names a
	// file for each: client_secret_file. It may name an environment variable for a secret instead:
	// client_secret_env.
	Secrets, Keys []string

	// Files are members of the settings that are public files, such as certificates. A configuration names
	// one file, certificate_file = "a.pem", or a list of them, trust_anchors = ["a.pem"]. The settings have
	// what is in the files: certificate is a text, and trust_anchors a list of texts. trust_lists.signers is
	// the member signers of each table of trust_lists.
	Files []string

	// URLs are members of the settings with an address to which requests go, so that an address that the host
	// never allows is found before its use. trust_lists.url is the member url of each table of trust_lists.
	URLs []string

	// Returns are the parameters of a return from another site that Act reads, in addition to "state". Each
	// occurs at most once, and Act sees no others.
	Returns []string

	// Check returns the errors of a method's settings. Problems name the members of the settings.
	Check func(c Config) problem.List

	// Overrides declares the settings that an integration may make stricter. The console's form has a field
	// for each. The Config has passed Check. Nil: an integration has nothing to set.
	Overrides func(c Config) []Override

	// Narrow returns the errors of an integration's values of Overrides, which may only be stricter than the
	// method's own. It is nil if and only if Overrides is.
	Narrow func(c Config, integration json.RawMessage) problem.List

	// Oldest returns the highest age that a method can prove, so that an integration that requires a higher
	// one is rejected. The Config has passed Check. Nil, or 0: every age.
	Oldest func(c Config) int

	// Signs returns the signing algorithm of each of Config.Keys, by the key's name, so that a key of the
	// wrong type is found before its use. The Config has passed Check. Nil: the kind has no keys.
	Signs func(c Config) map[string]string

	// Decrypts returns the algorithm (host.Host.Decrypt) of each of Config.Keys that decrypts, by the key's
	// name, so that a key that cannot is found before its use. The Config has passed Check. Nil, or empty: no
	// key decrypts.
	Decrypts func(c Config) map[string]string

	// CheckKeys reports keys that do not belong to their certificates, and certificates that are not for the
	// service. returnURL is a Probe's, or "" if it is not known. Without Host.Sign, keys are not
	// compared. The Config has passed Check. Nil: the kind has no certificates.
	CheckKeys func(ctx context.Context, c Config, h Host, returnURL string) problem.List

	// Lists returns the trusted lists of a method, which the host fetches (contract 53). The Config has
	// passed Check. Nil: none.
	Lists func(c Config) []TrustList

	// Circuits returns the circuits of the zero-knowledge proofs that a method accepts (contract 56). The
	// host reads or fetches them, to verify the proofs. The Config has passed Check. Nil, or none: the method
	// asks for no proofs.
	Circuits func(c Config) []Circuit

	// IsAnchor reports whether the method can use a certificate of a list, in DER. Others are not stored.
	IsAnchor func(certificate []byte) bool

	// Open returns the method. Its Config has passed Check. Open sends no request.
	Open func(c Config, h Host) (Method, error)
}

// Config is a method as the operator configures it.
type Config struct {
	Name  string `json:"name"`            // 1 to 32 lower case letters, digits and -
	Kind  string `json:"kind"`            // a Kind's name
	Level string `json:"level,omitempty"` // the highest level that it may prove: L1 or L2. Empty: the Kind's
	Title string `json:"-"`               // the text for users. Empty: the words for its kind

	// Titles are the texts for users by language, instead of Title. A language without one has the
	// English one. In JSON, title is Title, or an object with Titles and with Title under "".
	Titles map[string]string `json:"-"`

	Settings json.RawMessage   `json:"settings,omitempty"` // an object with the kind's settings. Empty: none
	Secrets  map[string]string `json:"secrets,omitempty"`  // by name, such as client_secret. Never logged
	Keys     []string          `json:"keys,omitempty"`     // those of Kind.Keys that exist; see KeyName

	// Dev allows http to a loopback host, as for callbacks. NewCatalog sets it.
	Dev bool `json:"-"`
}

// TitleIn returns the title in a language. Empty: the words for its kind.
func (c Config) TitleIn(lang string) string {
	const english = "en"
	return cmp.Or(c.Titles[lang], c.Title, c.Titles[english])
}

// KeyName is the name by which Host.Sign and Host.Decrypt know a key of the method.
func (c Config) KeyName(key string) string { return c.Name + "_" + key }

// HasNoSettings reports whether the configuration contains no settings of its kind.
func (c Config) HasNoSettings() bool {
	return (len(c.Settings) == 0 || string(c.Settings) == "{}") && len(c.Secrets) == 0 && len(c.Keys) == 0
}

// Host is a method's view of its environment: the core's host, restricted.
type Host struct {
	Now    func() time.Time
	Random io.Reader

	// Fetch sends a request to the provider. It adds the method's name, which selects the private CA and the
	// network that the operator has allowed.
	Fetch host.Fetcher

	// Measure records events of methods, for metrics (host.Observer). Methods call it only for
	// host.MethodUnchecked. For adds the method's name. Nil discards it.
	Measure func(host.Measurement)

	// Log gets warnings about other servers, with the attribute "method". Nil discards it.
	Log *slog.Logger

	// Sign signs with a private key that never enters the core (host.Host.Sign).
	Sign func(ctx context.Context, key, algorithm string, message []byte) ([]byte, error)

	// Decrypt decrypts with such a key (host.Host.Decrypt).
	Decrypt func(ctx context.Context, key, algorithm string, message []byte) ([]byte, error)

	// Verify verifies signatures (host.VerifyFunc).
	Verify host.VerifyFunc

	// VerifyProof verifies zero-knowledge proofs (host.VerifyProofFunc). Nil: the engine verifies none.
	VerifyProof host.VerifyProofFunc

	// TrustLists has the stored lists. Methods call Anchors. Nil: no list is stored.
	TrustLists TrustLists

	name string // of the method, see For
}

// Session is a session as a method sees it.
type Session struct {
	ID           string // svc_sess_…
	Level        string // L1 or L2
	ChallengeAge int    // the least age that an estimate must reach
	MinimumAge   int    // the age that a proof of age must prove
	Language     string // of the page, one of the six
	ExpiresAt    time.Time
	User         *string // the publisher's external user id; nil: not given

	Attempt   int             // how many attempts have failed
	ReturnURL string          // where another site sends the browser back to
	Settings  json.RawMessage // the integration's own, which Kind.Narrow has passed; nil: none

	// ResponseURI is the address to which another program posts the response to this step, once a Decision
	// has opened a pending response. With SameDevice appended, it is for a response from the browser's own
	// device. "": none is pending.
	ResponseURI string
}

// SameDevice ends a ResponseURI for the same-device flow: the program is on the browser's own device. Such a
// response completes nothing until this browser comes back with the response_code that the program received.
const SameDevice = ".s"

// Method executes one configured method. Its functions may be called concurrently. A form that a user posts
// twice may cause two concurrent calls of Act. Requests that must not be sent twice then use Host.FetchOnce.
type Method interface {
	// Begin prepares the first step. If the session has no other method, the core calls it at the start, and
	// else when the user chooses this one. An error means that the method is not available now; its text goes
	// to the log.
	Begin(ctx context.Context, s Session) error

	// Show returns the page of this step. It sends no request and has no effect. state is the State of
	// the step before, or nil on the first step.
	Show(s Session, state []byte) View

	// Act decides on a step of the user. An error means that nothing is known and nothing is decided. ErrStep
	// means that the page has no such form, and the user begins again: another kind may have had the method's
	// name before. A kind that sends no user to another site returns it for a Step.Back.
	// ErrStep with a *Rejection says that a form or return belongs to another request. After any other error
	// the user may try again.
	Act(ctx context.Context, s Session, step Step) (Decision, error)
}

// ResponseReceiver is a Method whose response another program posts, such as a wallet: its Decision opens a
// pending response. The response becomes Step.Response when the browser collects it, and Act decides then. So
// a proof belongs to the browser that requested it.
type ResponseReceiver interface {
	Method

	// Receive checks a response that was posted to the ResponseURI, and returns the part that Act needs: at
	// most MaxKept bytes. state is the State of the Decision that opened the pending response. s has no User
	// and no Language. The first response that Receive accepts counts. After ErrStep or a *Rejection another
	// one may be posted. After any other error nothing is known, and the program may send the response again.
	Receive(ctx context.Context, s Session, state []byte, c Call) (kept []byte, err error)
}

// Fingerprinter is a Method whose verdicts depend on some of its settings only. Fingerprint returns a digest
// of these, such as their SHA-256. A verdict that was kept counts only while it is the same. Without it,
// every setting counts.
type Fingerprinter interface{ Fingerprint() string }

// Truster is a Method with several trust anchors. Trusts reports whether a verdict still counts that had this
// Decision.Trust. After an error nothing is known, and the verdict does not count now.
type Truster interface {
	Trusts(ctx context.Context, trust string) (bool, error)
}

// Requester is a ResponseReceiver whose page may name the ResponseURI alone. The program fetches the request
// object from there, by GET or POST.
type Requester interface {
	ResponseReceiver

	// Fetches reports whether a POST to the ResponseURI fetches the request object. Any other POST is a
	// response.
	Fetches(c Call) bool

	// Request returns the request object for a Call, whose Body is empty if it is a GET. It asks the same
	// while the response is pending, however often it is fetched. ErrStep means that the method has no
	// request object, and a *Rejection that the Call is malformed.
	Request(ctx context.Context, s Session, state []byte, c Call) (RequestObject, error)
}

// RequestObject is the content that a program fetches from a ResponseURI.
type RequestObject struct {
	ContentType string
	Body        []byte
}

// Call is a request of a program to a ResponseURI.
type Call struct {
	Address     string // the ResponseURI, with SameDevice if the call was posted there
	Same        bool   // the call was posted to the address with SameDevice
	ContentType string
	Accept      string // the media types of the response that the program reads
	Body        []byte // at most Catalog.MaxCall bytes
}

// Limits of a posted response, in bytes.
const (
	MaxCall = 64 << 10 // of the posted data

	// maxProofCall replaces MaxCall if a method asks for zero-knowledge proofs.
	maxProofCall = 1 << 20

	MaxKept = 16 << 10 // of the part that Receive returns
)

// MaxCode is the maximum length of a View's Code in bytes, the capacity of a QR code.
const MaxCode = 2953

// ErrStep means that the method's page offers no such form at this point.
var ErrStep = errors.New("method: no such step")

// ErrOutdated means that the basis of a verdict no longer holds, such as its settings or its trust anchor, or
// that another release has written the state of the step. The verdict does not count, and the user begins the
// step again. A SettingError around it names the setting that changed.
var ErrOutdated error = &Rejection{Reason: "outdated"}

// View is a method's page. The pages know its words by the kind. A kind of your own has general words, with
// Config.Title in them.
type View struct {
	// Choices has one form each, as the form's outcome; the first is the most common choice. The buttons
	// have words for begin, check, cancel, approve, reject, fail_attempt, withdraw and unknown. Any other
	// button is "Continue".
	Choices []string

	Waiting bool // the provider has not decided yet; the page shows this
	Camera  bool // the page takes a picture, which arrives as Step.File
	Sandbox bool // the page says that nothing real is verified
	Here    bool // this device does the step, so the page does not offer a phone

	// For a page while a response is pending. It loads itself again after Poll, which is 3 s if it is 0.
	Open string // address that opens an app on this device; "": none
	Code string // for another device that responds; "": none. The page omits it above MaxCode
	Poll time.Duration

	// Outdated means that no response to the request can be accepted: another release has written the state,
	// or the settings have changed. The user begins the step again.
	Outdated bool

	// Credentials are requests that the browser itself can send to its user's wallets, where it has the
	// Digital Credentials API: one for each protocol. The browser chooses one. The response arrives as a
	// step whose form has it under CredentialField. Empty: nothing.
	Credentials []Credential
}

// Credential is a request to the Digital Credentials API of a browser.
type Credential struct {
	Protocol string // such as org-iso-mdoc
	Data     []byte // of the request: a JSON object
}

// OutcomeField is the member of a Step's form that has one of View.Choices.
const OutcomeField = "outcome"

// CredentialField is the field of a Step's form with the response of a browser's wallet: a JSON object of at
// most MaxCall bytes.
const CredentialField = "credential"

// Step is a user's action: a POST of the page's form, or, with Back, the return from another site.
type Step struct {
	Form  url.Values // OutcomeField and CredentialField, or of the return Kind.Returns; each at most once
	Back  bool       // the browser came back from the address of a Leave, and it is the same browser
	File  []byte     // the picture of a page with Camera, at most MaxFile bytes; nil: the form has none
	State []byte     // of the step before; it was sealed and belongs to this session, method and attempt

	// Response is the result of Receive, not nil, if the browser collects a response. Back is true if the
	// program is on the same device.
	Response []byte

	Basis verdict.Basis // of Response, at the time of Receive. Methods do not need it
}

// MaxFile is the maximum size of a picture in bytes (contract 37).
const MaxFile = 1 << 20

// Verdict is a method's decision about a step.
type Verdict int

// Verdicts. The zero Verdict is Unclassified, so that an undecided step is denied.
const (
	Unclassified  Verdict = iota // ended, for no reason that we know
	Approved                     // verified
	Rejected                     // a final no
	AttemptFailed                // no, but another attempt may succeed
	Withdrawn                    // the user has withdrawn finally
	Cancelled                    // the user left; no decision
	Pending                      // not decided yet: continue with State
)

// Decision is a verdict. For Pending it also has the next step.
type Decision struct {
	Verdict Verdict

	// State is passed back to the method with the next step: at most MaxState bytes. Only for Pending.
	State []byte

	// Leave sends the browser to another site. The next step is its return. Only for Pending.
	Leave *Leave

	// Await opens a pending response. The method is a ResponseReceiver, and Show has the ResponseURI. The
	// next step has the Response. An earlier pending response is closed. Only for Pending.
	Await bool

	// Reason is the reason why an attempt failed, for the page's text. Only for AttemptFailed.
	Reason Reason

	// Rejection is the error of a response that has failed the attempt, for logs and metrics. Nil:
	// nothing was. Only for AttemptFailed.
	Rejection *Rejection

	// Age is the age in years that an Approved verdict proves or estimates: a requested age, and never the
	// user's age, because it is stored. 0: the age of the session.
	Age int

	// Basis is the basis of the verdict. Opened sets it.
	Basis verdict.Basis

	// Trust names the trust anchor that a proof led to, such as a certificate's fingerprint. Empty: the
	// method has one source of trust, which its settings name.
	Trust string

	// Setting is the name of the setting that caused a verdict other than Approved, such as
	// "proof.claim", for logs. Detail is a path or name in it, never a value of the user.
	Setting, Detail string

	// Cause is a more exact reason than Reason, for logs: a constant such as "claim_absent". "": Reason is
	// all.
	Cause string
}

// MaxState is the maximum size of a Decision's State in bytes.
const MaxState = 512

// Leave is an authorization request, for which the browser goes to another site. The browser comes back to
// Session.ReturnURL with the handle as the query parameter "state". The core lets the return through only in
// the browser that left (contract 34), and then calls Act with Step.Back.
type Leave struct {
	URL    string // https, or http to a loopback host in dev; at most 2,048 bytes
	Handle string // of NewHandle
}

// NewHandle returns a random name of 128 bits for an authorization request, in base64url.
func NewHandle(random io.Reader) (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("method: reading randomness: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(b[:]), nil
}

// Reason is why an attempt failed.
type Reason string

// Reasons. A page has words for each.
const (
	Below   Reason = "below"    // the estimate is below the required age
	Unsure  Reason = "unsure"   // the estimate is too uncertain
	NotLive Reason = "not_live" // the picture is not of a live person
	NoFace  Reason = "no_face"  // no face, or more than one, is in the picture

	// tooMany: the session has sent as many pictures as it may, so this one was not sent.
	tooMany Reason = "too_many"

	// Unconfirmed: a proof is missing or cannot be read, so the age is not known.
	Unconfirmed Reason = "unconfirmed"

	Unproven Reason = "unproven"  // the wallet's response could not be verified
	Other    Reason = "other_age" // the wallet proves another age than the requested one

	// Why a document does not help, if the wallet has sent it for this session.
	Expired         Reason = "document_expired" // it has expired, or is not valid yet
	Untrusted       Reason = "issuer_untrusted" // its issuer leads to no trust anchor
	OtherDocument   Reason = "other_document"   // another type of document was requested
	DocumentRevoked Reason = "document_revoked" // the issuer has revoked or suspended the document
	SignerRevoked   Reason = "signer_revoked"   // the certificate of the document's signer was revoked
)

// Rejection is an error about a response that must not be believed, such as a bad signature. The reason is a
// constant text, for logs and metrics. It has no part of the response.
type Rejection struct{ Reason string }

func (r *Rejection) Error() string { return "rejected: " + r.Reason }

// SettingError is an error that a setting causes, such as an expired certificate. Err has the fix.
type SettingError struct {
	Reason          string // a constant text, for logs and metrics; "" is the one of Err
	Setting, Detail string // as of a Decision
	Err             error
}

func (e *SettingError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *SettingError) Unwrap() error { return e.Err }
