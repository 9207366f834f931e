package pages

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/core/internal/weburl"
)

// page is a View turned into words. Only its layout is left to do.
type page struct {
	lang    string
	title   string
	service string
	style   string
	accent  string // the stylesheet of the publisher's colours, or ""
	kind    Kind
	icon    string
	tone    string // "stop" or "": a colour in addition to icon and heading
	sandbox string

	publisher   Publisher
	askedByName sentence // around the publisher's name
	askedBy     sentence // around the host that receives the result
	heading     string
	lead        string
	notice      *notice
	waiting     string
	steps       []string
	stepsH      string
	formsH      string
	forms       []form
	hop         link
	left        string
	next        string
	causeH      string
	cause       string // in English
	retry       link
	back        backLink
	another     link
	again       again

	backFirst bool // the way back is the one thing to do
	ways      *ways
	number    number
	hand      *hand
	options   []option
	camera    *camera

	credential *credential
	passkey    *passkeyPart
	facts      []fact
	privacy    string
	footer     []link // pages of the operator
}

// sentence is a text around the name of the site. The name is set apart, so that its direction and characters
// cannot disturb the words around it. whole is the whole name if site is shortened, else "".
type sentence struct{ before, site, after, whole string }

type link struct{ text, href string }

// again is the update of a waiting page. Its script asks for url every few seconds (after), and loads another
// page if there is one or if its state is another. Without script it loads itself again, less often
// (refresh), and has a link with the text check.
type again struct{ url, state, after, refresh, check string }

type backLink struct {
	text sentence
	href string
}

type notice struct{ heading, text string }

// option is one method to choose. why is the reason if it cannot be chosen now, else "".
type option struct {
	form
	icon string
	text string
	why  string
}

type form struct {
	method  string // a name, instead of outcome
	action  string
	outcome string
	fields  []Field
	label   string
	primary bool
}

// hopeful are the pages from which the session can still be completed.
var hopeful = []Kind{Method, Progress, Asked, Choose, Cancelled, PhoneWait, Phone}

// ShowsTime reports whether the page shows the remaining time of its session.
func (v *View) ShowsTime() bool { return slices.Contains(hopeful, v.Kind) }

// restartable are the pages that end the flow. Only the site can start a new session.
var restartable = []Kind{Failed, Expired, Damaged, NotAllowed, TooLarge, NotAForm}

// compose finds the words. It gets the texts of lang as a parameter, so that a test can see which ones it
// takes.
func compose(v View, lang string, t texts) (page, error) {
	if err := checkView(v); err != nil {
		return page{}, err
	}
	// An expiry that is reported as a failure is shown as an expiry.
	if v.Kind == Failed && v.FailureCode == "TIMEOUT" {
		v.Kind = Expired
	}
	p := page{
		lang:    lang,
		service: v.Service.name(),
		style:   Style().Path,
		kind:    v.Kind,
		icon:    iconOf(v.Kind),
		privacy: t("privacy"),
	}
	// Each part may replace texts of the parts before it.
	for _, part := range []func(*page, View, texts) error{composeHeading, composeWaiting, composeWays,
		composeCredential, composeKept, composePasskey} {
		if err := part(&p, v, t); err != nil {
			return page{}, err
		}
	}
	p.title = p.heading
	if n := composeNotice(v, t); n != nil {
		p.notice = n
	}
	if p.notice != nil {
		// The title is the first thing that a screen reader says about a page.
		p.title = p.notice.heading + " – " + p.heading
	}
	composeFrame(&p, v, t)
	composeLinks(&p, v, t)
	composeBrand(&p, v, t)
	if v.OnPhone {
		forPhone(&p, t)
	}
	if err := composeForms(&p, v, t); err != nil {
		return page{}, err
	}
	if v.AgainURL != "" && (len(p.forms) > 0 || p.another.href != "") {
		p.back = backLink{}
	}
	p.backFirst = p.back.href != "" && slices.Contains(final, v.Kind) && p.retry.text == "" &&
		len(p.forms) == 0 && p.another.href == ""
	return p, nil
}

// checkView returns an error if the kind or an address of the view is not allowed.
func checkView(v View) error {
	switch {
	case !slices.Contains(kinds, v.Kind):
		return errors.New("no such kind of page")
	case v.RetryURL != "" && !localPath(v.RetryURL):
		return errors.New("RetryURL must be a path on this host")
	case v.AnotherURL != "" && !localPath(v.AnotherURL):
		return errors.New("AnotherURL must be a path on this host")
	case v.AgainURL != "" && (!localPath(v.AgainURL) || v.AgainAfter < time.Second):
		return errors.New("AgainURL must be a path on this host, loaded after a second or more")
	case v.ShowCodeURL != "" && !localPath(v.ShowCodeURL):
		return errors.New("ShowCodeURL must be a path on this host")
	case v.Open != "" && !weburl.IsApp(v.Open):
		return errors.New("the address to Open must be one with :// that browsers do not run")
	case (v.Kind == Completed || v.Kind == Leaving || v.HopURL != "") && !weburl.IsHop(v.HopURL):
		return errors.New("HopURL must be an http(s) address without blanks and quotes")
	}
	return nil
}

// composeHeading sets the heading and the lead.
func composeHeading(p *page, v View, t texts) error {
	switch v.Kind {
	case Method:
		return composeMethod(p, v, t)
	case Leaving:
		p.heading, p.lead = withTitle(t("leaving.heading"), title(v.Title, v.Words, t)), t("leaving.text")
	case Failed:
		code := v.FailureCode
		if !slices.Contains(failureCodes, code) {
			code = "UNKNOWN"
		}
		p.heading, p.lead, p.tone = t("failed."+code+".heading"), t("failed."+code+".text"), "stop"
	default:
		p.heading, p.lead = t(string(v.Kind)+".heading"), t(string(v.Kind)+".text")
	}
	return nil
}

// composeWaiting sets the texts of a page that waits, and the address that it loads.
func composeWaiting(p *page, v View, t texts) error {
	switch {
	case v.Kind == Progress:
		p.waiting = t("progress.status")
	case v.Kind == Asked && v.Words == "estimator":
		p.lead = t("asked.estimator")
	case v.Answered:
		p.lead, p.steps = t("box.answered"), nil
	case v.Kind == Method && v.AgainURL != "":
		p.lead, p.waiting, p.steps = t("box.text"), t("box.waiting"), nil
	case v.Kind == PhoneWait && v.Taken:
		p.lead, p.waiting = t("phone_wait.taken"), t("phone_wait.going")
	case v.Kind == PhoneWait:
		p.waiting = t("phone_wait.status")
	}
	if v.Confirmed && (v.Kind == Expired || v.Kind == Elsewhere) {
		p.lead = t(string(v.Kind) + ".confirmed")
	}
	if v.AgainURL != "" {
		p.again = composeAgain(v, t)
	}
	if v.HopURL != "" {
		p.hop = link{t("choice.continue"), v.HopURL}
	}
	return nil
}

// composeNotice returns the notice above the heading, or nil.
func composeNotice(v View, t texts) *notice {
	switch {
	case v.Notice.Trouble:
		return &notice{t("notice.trouble.heading"), t("notice.trouble.text")}
	case v.Notice.Outdated:
		return &notice{t("notice.outdated.heading"), t("notice.outdated.text")}
	case slices.Contains(fileRules, v.Notice.BadFile):
		return &notice{t("notice.bad_file.heading"), t("notice.file." + v.Notice.BadFile)}
	}
	if n := passkeyNotice(v.Notice.Passkey, t); n != nil || !v.Notice.AttemptFailed {
		return n
	}
	n := &notice{t("notice.heading"), attemptsLeft(v.Notice.AttemptsLeft, t)}
	named := v.Notice.Reason != "unconfirmed" || v.Kind == Method // only this page is of one method
	if slices.Contains(reasons, v.Notice.Reason) && named {
		n.heading = withTitle(t("notice."+v.Notice.Reason), title(v.Title, v.Words, t))
	}
	if v.Notice.Reason == "too_many" { // another photo is no way out
		n.text = t("notice.too_many.text")
	}
	if slices.Contains(documentReasons, v.Notice.Reason) {
		n.text = t("notice." + v.Notice.Reason + ".text")
		if left := v.Notice.AttemptsLeft; left > 0 {
			n.text += " " + plural(t, "notice.left", left)
		}
	}
	return n
}

// composeFrame sets the banner of the sandbox, the remaining time, and the advice to start again.
func composeFrame(p *page, v View, t texts) {
	if v.Sandbox || v.Dev {
		p.sandbox = t("sandbox.banner")
	}
	if v.ShowsTime() {
		p.left = timeLeft(v.ExpiresAt, v.Now, t)
	}
	if slices.Contains(restartable, v.Kind) && v.RetryURL == "" && !v.Confirmed {
		p.next = t("restart")
	}
	if v.Kind == Rejected && v.Cause != "" {
		p.causeH, p.cause = t("refused.cause"), v.Cause
	}
}

// composeLinks sets the links below the content: to another page of this service, and to the site.
func composeLinks(p *page, v View, t texts) {
	switch {
	case v.Kind == Leaving && v.RetryURL != "": // nothing has failed, and there is one thing to do
		p.another = link{t("leaving.back"), v.RetryURL}
	case v.AgainURL != "":
		if (v.Answered || v.Kind == PhoneWait) && v.RetryURL != "" {
			p.another = link{t("leaving.back"), v.RetryURL}
		}
	case v.Kind == Elsewhere && v.Reload: // most users have to go to the other browser
		p.another = link{t("retry"), ""}
	case v.RetryURL != "" || v.Reload:
		p.retry = link{t("retry"), v.RetryURL}
	}
	// A page that waits has few ways out: one who cancels may choose another method.
	if v.AnotherURL != "" && v.AgainURL == "" {
		p.another = link{t("another"), v.AnotherURL}
	}
	if origin, host := weburl.Site(v.SiteOrigin); origin != "" {
		p.askedBy = aroundSite(t("asked_by"), host)
		// A page that takes the result to the site has no second link, which would go there without the
		// result.
		if v.HopURL == "" {
			p.back = backLink{aroundSite(t("back"), host), cmp.Or(v.BackURL, origin)}
		}
	}
}

// composeBrand names the publisher above the host that receives the result. The words before both are ours,
// so that a name or a logo cannot pass for the service.
func composeBrand(p *page, v View, t texts) {
	p.publisher = v.Publisher
	if name := v.Publisher.Name; name != "" {
		p.askedByName = aroundName(t("asked_by"), name)
		if p.askedBy.site != "" {
			p.askedBy.before, p.askedBy.after, _ = strings.Cut(t("receiver"), "{site}")
		}
	}
	if a, ok := AccentSheet(v.Publisher.Accent); ok {
		p.accent = a.Path
	}
	for _, l := range []link{{t("help_link"), v.Service.HelpURL}, {t("privacy_link"), v.Service.PrivacyURL}} {
		if l.href != "" {
			p.footer = append(p.footer, l)
		}
	}
}

// aroundName returns the text around the name of a publisher.
func aroundName(text, name string) sentence {
	before, after, _ := strings.Cut(text, "{site}")
	return sentence{before: before, site: name, after: after}
}

// final are the pages after which there is one thing to do: to go back to the site.
var final = []Kind{Failed, Expired, Used, Damaged, NotAllowed, NotFound, TooSlow, TooLarge, TooLong, NotAForm,
	Rejected}

// slower is how much less often a page loads itself again without script, where each time is a page that is
// read out again.
const slower = 3

func composeAgain(v View, t texts) again {
	a := again{url: v.AgainURL, state: "waiting", check: t("choice.check"),
		after:   strconv.Itoa(int(v.AgainAfter / time.Second)),
		refresh: strconv.Itoa(int(slower*v.AgainAfter/time.Second)) + ";url=" + v.AgainURL}
	switch {
	case v.Answered:
		a.state = "answered"
	case v.Taken:
		a.state = "taken"
	}
	return a
}

func composeMethod(p *page, v View, t texts) error {
	age := strconv.Itoa(v.ChallengeAge)
	switch {
	case v.Level == "L1" && v.ChallengeAge > 0:
		p.icon = "face"
	case v.Level == "L1":
		return errors.New("L1 needs a ChallengeAge above 0")
	case v.Level == "L2":
		p.icon = "document"
	default:
		return fmt.Errorf("the Level must be L1 or L2, not %q", v.Level)
	}
	words := "method." + v.Level
	switch v.Words {
	case "oidc": // it proves the minimum age, and its words are of a site and not of a document
		words, p.icon, age = "method.oidc", "person", strconv.Itoa(v.MinimumAge)
	case "openid4vp": // it proves the minimum age, and its words are of an app
		words, age = "method.openid4vp", strconv.Itoa(v.MinimumAge)
	}
	if isCustom(v.Words) && !v.Camera {
		p.icon, p.lead, p.heading = methodIcon(v.Words), t("method.custom.text"), t("method.L1.heading")
		if v.Title != "" {
			p.heading = withTitle(t("method.oidc.heading"), v.Title)
		}
		return nil
	}
	fill := func(key string) string {
		return withTitle(strings.ReplaceAll(t(words+key), "{age}", age), title(v.Title, v.Words, t))
	}
	p.heading, p.lead, p.stepsH = fill(".heading"), fill(".text"), t("steps")
	for _, n := range []string{"1", "2", "3"} {
		p.steps = append(p.steps, fill(".step"+n))
	}
	if v.Here && v.Words == "openid4vp" {
		p.steps[0] = fill(".here")
	}
	if v.Camera {
		var err error
		if p.camera, err = composeCamera(v, t); err != nil {
			return err
		}
		// After a failed try the user knows the steps, and looks for the camera.
		if n := v.Notice; n.AttemptFailed || n.BadFile != "" || n.Trouble || n.Outdated {
			p.steps = nil
		}
	}
	if v.Sandbox && len(v.Choices) > 0 {
		p.formsH = t("sandbox.choose")
	}
	return nil
}

// named are the kinds of methods for which there are a title and a line on a button.
var named = []string{"oidc", "estimator", "openid4vp"}

// isCustom reports whether a kind is the program's own (core.Config.Kinds), for which there are no words.
func isCustom(words string) bool {
	return words != "" && words != "sandbox" && !slices.Contains(named, words)
}

// title returns the name of a method: the operator's, or else the words for its kind.
func title(given, words string, t texts) string {
	switch {
	case given != "":
		return given
	case slices.Contains(named, words):
		return t("title." + words)
	case isCustom(words):
		return t("title.custom")
	}
	return t("title.other")
}

// methodIcon returns the icon of a kind of method.
func methodIcon(words string) string {
	switch words {
	case "oidc":
		return "person"
	case "estimator":
		return "face"
	case "openid4vp":
		return "document"
	}
	return "shield"
}

func withTitle(text, title string) string { return strings.ReplaceAll(text, "{title}", title) }

func composeOptions(p *page, v View, t texts) error {
	if len(v.Methods) == 0 || !localPath(v.Action) {
		return errors.New("it needs Methods and an Action that is a path on this host")
	}
	for _, m := range v.Methods {
		o := option{form: form{action: v.Action, method: m.Name, label: title(m.Title, m.Words, t),
			fields: []Field{{"flow", v.Flow}, {"method", m.Name}}}}
		o.icon = methodIcon(m.Words)
		switch {
		case slices.Contains(named, m.Words):
			o.text = t("option." + m.Words)
		case isCustom(m.Words):
			o.text = t("method.custom.text")
		default:
			o.text = t("option.other")
		}
		if m.Unavailable {
			o.why = t("option.unavailable")
		}
		p.options = append(p.options, o)
	}
	return nil
}

func composeForms(p *page, v View, t texts) error {
	if v.Kind == Choose {
		return composeOptions(p, v, t)
	}
	choices := v.Choices
	if choices == nil {
		if v.Kind == Progress {
			choices = []string{"check"}
		}
	}
	if len(choices) == 0 {
		return nil
	}
	if !localPath(v.Action) {
		return errors.New("the Action must be a path on this host")
	}
	for i, outcome := range choices {
		label := t("choice.continue")
		if slices.Contains(knownOutcomes, outcome) {
			label = t("choice." + outcome)
			switch {
			case outcome != "begin":
			case v.Kind == Phone:
				label = t("phone.begin")
			case v.Words == "oidc": // the browser leaves, so the button names the target
				label = withTitle(t("choice.begin.oidc"), title(v.Title, v.Words, t))
			}
		}
		p.forms = append(p.forms, form{
			action:  v.Action,
			outcome: outcome,
			fields:  append([]Field{{"flow", v.Flow}, {"outcome", outcome}}, v.Extra...),
			label:   label,
			primary: i == 0 && v.AgainURL == "", // a page that continues automatically has none
		})
	}
	return nil
}

// reasons are why an attempt fails, as far as there are words for it.
var reasons = []string{"below", "unsure", "not_live", "no_face", "too_many", "unconfirmed", "unproven",
	"other_age", "document_expired", "issuer_untrusted", "other_document", "document_revoked",
	"signer_revoked"}

// documentReasons are those that another attempt with the same document does not change.
var documentReasons = []string{"document_expired", "issuer_untrusted", "other_document", "document_revoked",
	"signer_revoked"}

// fileRules are the rules for photos (steperror.Rule).
var fileRules = []string{"missing", "type", "damaged", "large", "small", "wide"}

var failureCodes = []string{"PROVIDER_REJECTED", "USER_CANCELLED", "MAX_ATTEMPTS", "UNKNOWN"}

var knownOutcomes = []string{"begin", "check", "continue", "cancel",
	"approve", "reject", "fail_attempt", "withdraw", "unknown"}

// iconOf returns the name of the icon of a page.
func iconOf(k Kind) string {
	switch k {
	case Progress, Asked, Expired, TooSlow, PhoneOver:
		return "clock"
	case Choose, NotAllowed, Home:
		return "shield"
	case Leaving:
		return "person"
	case Elsewhere, Damaged, NotFound, TooLong:
		return "link"
	case Completed, Used, PhoneDone:
		return "check"
	case Failed, TooLarge, NotAForm, Rejected:
		return "cross"
	case Passkeys:
		return "key"
	case Cancelled, TooOften, PhoneTaken:
		return "pause"
	case Unavailable:
		return "cloud"
	case PhotoTooLarge, NoPicture:
		return "face"
	case PhoneWait, Phone:
		return "phone"
	}
	return ""
}

// localPath reports whether s stays on this host. Browsers read a backslash as a slash, and two slashes at
// the beginning as the start of a host.
func localPath(s string) bool {
	return strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "//") &&
		!strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == '\\' || r == 0x7f })
}

func aroundSite(text, host string) sentence {
	before, after, _ := strings.Cut(text, "{site}")
	s := sentence{before: before, site: shortened(host), after: after}
	if s.site != host {
		s.whole = host
	}
	return s
}

// Lengths of the name of a site on a page, in characters.
const (
	longestHost = 48 // a longer one is shortened
	hostHead    = 8  // of a shortened one
	hostTail    = 36 // at least
)

// shortened returns a host name that fits on a phone's page. It cuts a long name in the middle. It keeps the
// end, which identifies the owner of the site: the owner of a domain chooses the names below it. The last
// three labels are kept whole, as in example.co.uk.
func shortened(host string) string {
	name := []rune(host)
	if len(name) <= longestHost {
		return host
	}
	tail := hostTail
	for n, labels := len(name)-1, 1; n >= 0 && labels <= 3; n-- {
		if name[n] == '.' {
			labels++
		} else {
			tail = max(tail, len(name)-n)
		}
	}
	if hostHead+tail >= len(name) {
		return host
	}
	return string(name[:hostHead]) + "…" + string(name[len(name)-tail:])
}

func attemptsLeft(n int, t texts) string {
	if n <= 0 {
		return t("notice.again")
	}
	return plural(t, "notice.attempts", n)
}

// timeLeft rounds to the nearest minute. The text says "about", and 9:58 should not read as 9 to someone who
// was promised 10.
func timeLeft(expires, now time.Time, t texts) string {
	if expires.IsZero() || now.IsZero() {
		return ""
	}
	switch d := expires.Sub(now); {
	case d <= 0:
		return ""
	case d < time.Minute:
		return t("left.less")
	default:
		return plural(t, "left", int((d+30*time.Second)/time.Minute))
	}
}

// plural knows singular and plural. The six languages need no more for the small whole numbers above zero
// that are counted here.
func plural(t texts, key string, n int) string {
	if n == 1 {
		return t(key + ".one")
	}
	return strings.ReplaceAll(t(key+".other"), "{n}", strconv.Itoa(n))
}
