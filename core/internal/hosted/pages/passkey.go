package pages

import (
	_ "embed"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/core/internal/language"
	"github.com/verge-id/verge/core/internal/weburl"
)

// The script of pages on which a passkey is created or used. Browsers offer passkeys to scripts alone. The
// parts that require the script are hidden without it.
//
//go:embed passkey.js
var passkeyJS []byte

var passkeyScript = asset("passkey", "js", javaScript, passkeyJS)

// PasskeyScript returns the script that a page with View.Passkey loads, and no other page. Such a page needs
// "script-src 'self'", and the permission to use and to create passkeys.
func PasskeyScript() Asset { return passkeyScript }

// Passkey is the part of a page on which the user uses a passkey or makes one.
type Passkey struct {
	Enrol   bool    // makes one, on a Completed page; else it uses one
	Options string  // for the browser's navigator.credentials, as JSON
	Fields  []Field // hidden inputs of its form, after flow
	LookURL string  // the page where users see the stored data; "": no link
}

// Kept is the content of the page about a user's own passkey: the result of the last action, or the stored
// data. The zero Kept is the page before the first action.
type Kept struct {
	// the form was too old; the response was invalid; no data is stored; the data was deleted
	Late, Rejected, Unknown, Deleted bool

	// The stored data. Made is zero if no data is shown.
	Level         string
	Estimate      bool
	Age           int
	Publisher     string
	Made, Until   time.Time
	Blocked, Over bool
}

// passkeyPart is a Passkey turned into words.
type passkeyPart struct {
	enrol   bool
	name    string // of the form, as data-method or data-step has it
	action  string
	options string
	fields  []Field
	heading string
	text    string
	label   string
	failed  string // the text if the browser gives no passkey
	to      sentence
	look    link
	alone   bool // the page has nothing else to do
}

// passkeyReasons are why a passkey is not accepted, as far as there are words for it.
var passkeyReasons = []string{"answer", "unknown", "blocked", "over", "trust", "elsewhere", "level", "method",
	"age", "stricter"}

func composePasskey(p *page, v View, t texts) error {
	if v.Passkey == nil {
		return nil
	}
	if !localPath(v.Action) || v.Passkey.LookURL != "" && !localPath(v.Passkey.LookURL) {
		return errors.New("the Action and the LookURL must be paths on this host")
	}
	part := &passkeyPart{enrol: v.Passkey.Enrol, name: "passkey", action: v.Action,
		options: v.Passkey.Options,
		label:   t("passkey.use"), text: t("passkey.use.text"), failed: t("passkey.none")}
	if v.Flow != "" {
		part.fields = append(part.fields, Field{"flow", v.Flow})
	}
	part.fields = append(part.fields, v.Passkey.Fields...)
	switch {
	case v.Passkey.Enrol:
		part.heading, part.text, part.label = t("passkey.enrol.heading"), t("passkey.enrol.text"),
			t("passkey.enrol")
		p.lead = t("passkey.enrol.lead")
		if _, host := weburl.Site(v.SiteOrigin); host != "" {
			part.to = aroundSite(t("passkey.continue"), host)
		}
	case v.Kind == Passkeys:
		part.label, part.text, part.alone = t("passkeys.show"), "", true
	}
	if v.Passkey.LookURL != "" {
		part.look = link{t("passkey.look"), v.Passkey.LookURL}
	}
	p.passkey = part
	return nil
}

// fact is one line of the stored data.
type fact struct{ name, value string }

// composeKept finds the words of the page of one's own passkey.
func composeKept(p *page, v View, t texts) error {
	if v.Kind != Passkeys {
		return nil
	}
	k := v.Kept
	switch {
	case k.Late:
		p.notice = &notice{t("passkeys.late"), t("passkeys.again")}
	case k.Rejected:
		p.notice = &notice{t("notice.passkey"), t("passkeys.again")}
	case k.Unknown:
		p.notice = &notice{t("passkeys.unknown"), t("passkeys.unknown.text")}
	case k.Deleted:
		p.heading, p.lead = t("passkeys.deleted"), t("passkeys.deleted.text")
	}
	if k.Made.IsZero() {
		return nil
	}
	p.heading, p.lead = t("passkeys.kept"), t("passkeys.kept.text")
	proof := "passkeys.proof"
	switch {
	case k.Estimate:
		proof = "passkeys.estimate"
	case k.Level == "L2":
		proof = "passkeys.document"
	}
	p.facts = []fact{
		{t("passkeys.proves"), strings.ReplaceAll(t(proof), "{age}", strconv.Itoa(k.Age))},
		{t("passkeys.publisher"), k.Publisher},
		{t("passkeys.made"), day(p.lang, k.Made)},
		{t("passkeys.until"), day(p.lang, k.Until)},
	}
	switch {
	case k.Blocked:
		p.facts = append(p.facts, fact{t("passkeys.state"), t("passkeys.blocked")})
	case k.Over:
		p.facts = append(p.facts, fact{t("passkeys.state"), t("passkeys.over")})
	}
	p.forms = []form{{action: v.Action, outcome: "delete",
		fields: append([]Field{{"outcome", "delete"}}, v.Extra...), label: t("passkeys.delete")}}
	return nil
}

// PasskeyName returns the name of a passkey that is created at that time. site is the address of the only
// site that accepts it, or "".
func PasskeyName(lang, site string, now time.Time) string {
	if !language.Known(lang) {
		lang = language.Default
	}
	name := strings.ReplaceAll(messages(lang)("passkey.name"), "{date}", day(lang, now))
	if _, host := weburl.Site(site); host != "" {
		name += ", " + shortened(host)
	}
	return name
}

// passkeyNotice returns the notice for a rejected passkey; nil if the reason has no words.
func passkeyNotice(reason string, t texts) *notice {
	if !slices.Contains(passkeyReasons, reason) {
		return nil
	}
	return &notice{t("notice.passkey"), t("notice.passkey." + reason)}
}
