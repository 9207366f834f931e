// Package pages renders what the person who is verified sees: every page of the hosted flow, in six
// languages, for a phone first.
//
// Use Render for a page, and Style for the one stylesheet that the pages load.
//
// The package has no state and makes no decisions. It renders a View as a document, and guarantees that
//
//   - a page has no inline script, no inline style and loads nothing but the
//     stylesheet and its publisher's colours and logo, so that it works under
//     "default-src 'none'; style-src 'self'; img-src 'self'".
//     A page with a camera, a passkey, a request to
//     the browser's wallets or something to wait for also loads the script for
//     that;
//   - a page acts by a POST form alone, and looking at a page does nothing,
//     however often (contract 22);
//   - the only address of another site on a page is the plain origin of the
//     publisher's callback, without path or parameters (contract 24), on a hop
//     page the next address (contract 22), and the operator's
//     pages for help and privacy (contract 52);
//   - every value of a View is escaped.
//
// Send "Referrer-Policy: same-origin" with a page. The page's own address holds a flow token, which must not
// reach other sites. "no-referrer" would go too far: with it browsers post these forms with "Origin: null",
// as if they came from elsewhere.
package pages

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/verge-id/verge/core/internal/language"
)

//go:generate go run ../../../../cmd/generate/pages
//go:generate go run ../../../../cmd/generate/icon

// Kind is the kind of a page.
type Kind string

// The pages.
const (
	Method   Kind = "method"   // the steps of the check, and the button that begins it
	Progress Kind = "progress" // the provider has not decided yet
	Asked    Kind = "asked"    // another request of this browser is asking the provider
	Choose   Kind = "choose"   // the choice of a method
	Leaving  Kind = "leaving"  // the hop to the site of a method
	// the check continues, or with View.Confirmed has ended, in another browser
	Elsewhere   Kind = "elsewhere"
	Completed   Kind = "completed"   // the hop back to the site
	Failed      Kind = "failed"      // final; View.FailureCode is the reason
	Expired     Kind = "expired"     // the session, or with View.Confirmed its result token, has expired
	Used        Kind = "used"        // the site has fetched the result
	Damaged     Kind = "damaged"     // the link was not created by this service
	Passkeys    Kind = "passkeys"    // the stored data of the user's passkey, outside of any session
	Cancelled   Kind = "cancelled"   // the user stopped, the session continues
	Unavailable Kind = "unavailable" // 503: an internal error or overload
	NotAllowed  Kind = "not_allowed" // 403: a form posted from another site

	NotFound      Kind = "not_found"       // 404
	TooSlow       Kind = "too_slow"        // 408
	TooLarge      Kind = "too_large"       // 413
	PhotoTooLarge Kind = "photo_too_large" // 413 where photos are posted
	TooLong       Kind = "too_long"        // 414
	NotAForm      Kind = "not_a_form"      // 415
	TooOften      Kind = "too_often"       // 429
	NoPicture     Kind = "no_picture"      // 405 where photos are posted: a browser has loaded the address
	Rejected      Kind = "refused"         // any other fault of a request
	Home          Kind = "home"            // the service introduces itself

	// A hand-off. PhoneWait is on the computer, the others on the phone.
	PhoneWait  Kind = "phone_wait"  // the code for the phone, and the phone's progress
	Phone      Kind = "phone"       // the site that asks, and the button that begins the step
	PhoneTaken Kind = "phone_taken" // another device does the step
	PhoneDone  Kind = "phone_done"  // the computer continues
	PhoneOver  Kind = "phone_over"  // the link has expired, was used or was replaced
)

// kinds has every Kind.
var kinds = []Kind{Method, Progress, Asked, Choose, Leaving, Elsewhere, Completed, Failed, Expired, Used,
	Damaged, Cancelled, Unavailable, NotAllowed, NotFound, TooSlow, TooLarge, PhotoTooLarge, TooLong,
	NotAForm, TooOften, NoPicture, Rejected, Home, PhoneWait, Phone, PhoneTaken,
	PhoneDone, PhoneOver, Passkeys}

// View is one page. It requires Kind, and the fields that the comments list for that kind. Every other field
// may be zero. The page then omits the field's content.
type View struct {
	Kind Kind

	Service   Service
	Publisher Publisher

	Lang string // one of language.All; anything else: "en"

	Level        string // "L1" or "L2"; needed by Method
	ChallengeAge int    // above 0; needed by Method for L1

	// Words is the kind of the page's method, and Title its name by the operator. A custom kind has general
	// words. The sandbox, and a custom kind with a camera, use those of the Level.
	Words, Title string
	MinimumAge   int  // the age to prove; the words of a proof of age contain it
	Camera       bool // the method page takes a picture

	// Methods lists the methods to choose from. Required by Choose.
	Methods []Option

	// AnotherURL is the path and query, on this host, of the page to choose another method. "": no such page.
	AnotherURL string

	// Action is the path that forms post to, on this host. Needed wherever
	// there is a form: Method, Progress and any page with Choices.
	Action string

	// FileAction is the path, on this host, to which a form with a picture posts. Needed with Camera.
	FileAction string

	// Flow is the flow token, posted as "flow" by every form, and Extra are
	// further hidden inputs after it. Extra must not be named flow or outcome.
	Flow  string
	Extra []Field

	// Choices are the outcomes of the page's buttons. Each is a separate form, <form data-outcome="…">, and
	// the first is the default action. The button of an unknown outcome has the text of continue. Nil:
	// "check" on Progress, and none elsewhere.
	Choices []string

	// HopURL is the address that the page continues to automatically: an http(s) address on any host, which
	// browsers use unchanged (weburl.IsHop). Required by Completed and Leaving.
	HopURL string

	// Confirmed reports for an expired link that the check had succeeded.
	Confirmed bool

	// Passkey is a passkey to be used or created; nil: none. It requires Action. Kept is for the page of
	// Passkeys.
	Passkey *Passkey
	Kept    Kept

	Notice Notice

	// SiteOrigin is the origin of the publisher's callback, such as https://shop.example. The plain link back
	// opens it. If it is a longer URL, the rest is cut off. If it is empty or not an http(s) origin, the page
	// names no site and has no link.
	SiteOrigin string

	// BackURL is the address of the link to the site, instead of SiteOrigin. It may be empty.
	BackURL string

	// RetryURL is the path and query, on this host, of the page to try again. Reload is true if it is the
	// page's own address.
	RetryURL string
	Reload   bool

	// AgainURL is the path and query, on this host, at which the page looks for another page every
	// AgainAfter, which is whole seconds; without script it loads it, less often. "": it does not update.
	AgainURL   string
	AgainAfter time.Duration

	// Open is an address that opens an app on this device. Code is the content of the QR code with which
	// another device can respond instead. A phone shows the code only with CodeShown, and links to
	// ShowCodeURL, a path and query on this host. Answered is true if the response has arrived on this device
	// and another page continues.
	Open, Code  string
	Here        bool // the app must be on this device
	CodeShown   bool
	ShowCodeURL string
	Answered    bool

	// Hand offers to do the step on a phone, by a form that posts flow, Extra and hand=open. OnPhone is true
	// on that phone. Number is shown on both screens. Taken is true if the phone has begun.
	Hand, OnPhone bool
	Number        string
	Taken         bool

	// Credential is the request to the browser's own wallets, if the browser supports it. Nil: no request.
	Credential *Credential

	Cause string // for Rejected: the error for the developers of the site, in English; may be empty

	FailureCode string // for Failed, as in events; an unknown code is shown as UNKNOWN

	// ExpiresAt and Now show the remaining time of the session, on the pages from which it can continue.
	// Either zero: not shown.
	ExpiresAt time.Time
	Now       time.Time

	// Sandbox marks the page as a test.
	Sandbox bool
	// Dev marks it, too: in development, methods are only simulated.
	Dev bool
}

// Service is the operator's brand, which every page has.
type Service struct {
	Name                string // "": "Verge"
	HelpURL, PrivacyURL string // links to the operator's own pages; "": none
}

// name returns the name of the service.
func (s Service) name() string { return cmp.Or(s.Name, "Verge") }

// Publisher is the brand of the publisher that requests the verification. The zero Publisher is not named.
type Publisher struct {
	Name   string
	Accent string // #rrggbb; "": the colours of the service

	Logo                  string // a path on this host; "": none
	LogoWidth, LogoHeight int    // pixels
}

// Credential is a call of the browser's Digital Credentials API.
type Credential struct {
	Requests []CredentialRequest // of different protocols, at least one. The browser chooses one
	Action   string              // the path, on this host, of the response
}

// CredentialRequest is a request by one protocol.
type CredentialRequest struct {
	Protocol string
	Data     string // of the request, in JSON
}

// Field is one hidden input.
type Field struct{ Name, Value string }

// Option is one method to choose, <form data-method="NAME" method="post">, which posts the hidden inputs flow
// and method.
type Option struct {
	Name  string
	Title string // the operator's name for it; "": the words for its kind
	Words string // its kind

	// Unavailable is true if the method cannot be used now. It has no button then.
	Unavailable bool
}

// Notice describes the results of earlier attempts. The zero Notice shows no text.
type Notice struct {
	AttemptFailed bool
	AttemptsLeft  int    // 0 or less: the number is not mentioned
	Reason        string // why the attempt failed; an unknown reason is not shown

	// BadFile is the rule that the file violates (steperror.Rule). No attempt was counted. "": no file was
	// rejected.
	BadFile string

	// Passkey is why the user's passkey was not accepted. No attempt was counted.
	Passkey string

	// Trouble is true if the method's provider failed. No attempt was counted.
	Trouble bool

	// Outdated is true if the settings changed before a verdict was used. No attempt was counted.
	Outdated bool
}

// Render returns the whole document, UTF-8. It returns an error only for an invalid View: an unknown Kind, a
// missing field, an Action or RetryURL that is not a path on this host, or a HopURL that browsers would
// change.
func Render(v View) ([]byte, error) {
	lang := v.Lang
	if !language.Known(lang) {
		lang = language.Default
	}
	p, err := compose(v, lang, messages(lang))
	if err != nil {
		return nil, fmt.Errorf("pages: %s page: %w", v.Kind, err)
	}
	var out bytes.Buffer
	if err := document(p).Render(context.Background(), &out); err != nil {
		return nil, fmt.Errorf("pages: %s page: %w", v.Kind, err)
	}
	return out.Bytes(), nil
}
