package pages

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/core/weburl"
)

// page is a View turned into words. Only its layout is left to do.
type page struct {
	lang    string
	title   string
	style   string
	kind    Kind
	icon    string
	tone    string // "stop" or "": a colour on top of what icon and heading say already
	sandbox string

	askedBy sentence
	heading string
	lead    string
	notice  *notice
	waiting string
	steps   []string
	stepsH  string
	formsH  string
	forms   []form
	hop     link
	left    string
	next    string
	retry   link
	back    backLink
	privacy string
}

// sentence is a text around the name of the site. The name is set apart, so that its direction and characters
// cannot disturb the words around it. whole is the whole name if site is shortened, else "".
type sentence struct{ before, site, after, whole string }

type link struct{ text, href string }

type backLink struct {
	text sentence
	href string
}

type notice struct{ heading, text string }

type form struct {
	action  string
	outcome string
	fields  []Field
	label   string
	primary bool
}

// hopeful are the pages from which the session can still be completed.
var hopeful = []Kind{Method, Progress, Cancelled}

// restartable are the pages that end the flow. Only the site can start a new session.
var restartable = []Kind{Failed, Expired, Damaged, NotAllowed, TooLarge, NotAForm}

// compose finds the words. It gets the texts of lang as a parameter, so that a test can see which ones it
// takes.
func compose(v View, lang string, t texts) (page, error) {
	if !slices.Contains(Kinds, v.Kind) {
		return page{}, errors.New("no such kind of page")
	}
	if v.RetryURL != "" && !localPath(v.RetryURL) {
		return page{}, errors.New("RetryURL must be a path on this host")
	}
	if (v.Kind == Completed || v.HopURL != "") && !weburl.IsHop(v.HopURL) {
		return page{}, errors.New("HopURL must be an http(s) address without blanks and quotes")
	}
	// An expiry that is reported as a failure is shown as an expiry.
	if v.Kind == Failed && v.FailureCode == "TIMEOUT" {
		v.Kind = Expired
	}

	p := page{
		lang:    lang,
		style:   Style().Path,
		kind:    v.Kind,
		icon:    icons[v.Kind],
		privacy: t("privacy"),
	}
	switch v.Kind {
	case Method:
		if err := composeMethod(&p, v, t); err != nil {
			return page{}, err
		}
	case Failed:
		code := v.FailureCode
		if !slices.Contains(failureCodes, code) {
			code = "UNKNOWN"
		}
		p.heading, p.lead, p.tone = t("failed."+code+".heading"), t("failed."+code+".text"), "stop"
	default:
		p.heading, p.lead = t(string(v.Kind)+".heading"), t(string(v.Kind)+".text")
	}
	if v.Kind == Progress {
		p.waiting = t("progress.status")
	}
	if v.Kind == Expired && v.Confirmed {
		p.lead = t("expired.confirmed")
	}
	if v.HopURL != "" {
		p.hop = link{t("choice.continue"), v.HopURL}
	}
	p.title = p.heading
	if v.Notice.AttemptFailed {
		p.notice = &notice{t("notice.heading"), attemptsLeft(v.Notice.AttemptsLeft, t)}
		// The title is the first thing that a screen reader says about a page.
		p.title = p.notice.heading + " – " + p.heading
	}
	if v.Sandbox {
		p.sandbox = t("sandbox.banner")
	}
	if slices.Contains(hopeful, v.Kind) {
		p.left = timeLeft(v.ExpiresAt, v.Now, t)
	}
	if slices.Contains(restartable, v.Kind) && v.RetryURL == "" && !v.Confirmed {
		p.next = t("restart")
	}
	if v.RetryURL != "" || v.Reload {
		p.retry = link{t("retry"), v.RetryURL}
	}
	if origin, host := weburl.Site(v.SiteOrigin); origin != "" {
		p.askedBy = aroundSite(t("asked_by"), host)
		// A page that takes the result to the site has no second link, which would lead there without it.
		if v.HopURL == "" {
			p.back = backLink{aroundSite(t("back"), host), origin}
		}
	}
	return p, composeForms(&p, v, t)
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
	p.heading = t("method." + v.Level + ".heading")
	p.lead = strings.ReplaceAll(t("method."+v.Level+".text"), "{age}", age)
	p.stepsH = t("steps")
	for _, n := range []string{"1", "2", "3"} {
		p.steps = append(p.steps, strings.ReplaceAll(t("method."+v.Level+".step"+n), "{age}", age))
	}
	if v.Sandbox && len(v.Choices) > 0 {
		p.formsH = t("sandbox.choose")
	}
	return nil
}

func composeForms(p *page, v View, t texts) error {
	choices := v.Choices
	if choices == nil {
		if v.Kind == Progress {
			choices = []Choice{{Outcome: "check"}}
		}
	}
	if len(choices) == 0 {
		return nil
	}
	if !localPath(v.Action) {
		return errors.New("the Action must be a path on this host")
	}
	for i, c := range choices {
		label := c.Label
		if label == "" && slices.Contains(knownOutcomes, c.Outcome) {
			label = t("choice." + c.Outcome)
		} else if label == "" {
			label = t("choice.continue")
		}
		p.forms = append(p.forms, form{
			action:  v.Action,
			outcome: c.Outcome,
			fields:  append([]Field{{"flow", v.Flow}, {"outcome", c.Outcome}}, v.Extra...),
			label:   label,
			primary: i == 0,
		})
	}
	return nil
}

var failureCodes = []string{"PROVIDER_REJECTED", "USER_CANCELLED", "MAX_ATTEMPTS", "UNKNOWN"}

var knownOutcomes = []string{"begin", "check", "continue", "cancel",
	"approve", "reject", "fail_attempt", "withdraw", "unknown"}

var icons = map[Kind]string{
	Progress:    "clock",
	Completed:   "check",
	Failed:      "cross",
	Expired:     "clock",
	Used:        "check",
	Damaged:     "link",
	Cancelled:   "pause",
	Unavailable: "cloud",
	NotAllowed:  "shield",
	NotFound:    "link",
	TooSlow:     "clock",
	TooLarge:    "cross",
	NotAForm:    "cross",
	TooOften:    "pause",
	TooLong:     "link",
	Refused:     "cross",
	Home:        "shield",
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

// shortened returns a host name that does not fill a phone's page. It cuts a long one in the middle. The end
// stays, since it says whose site it is: whoever has a domain chooses the names below it. The last three
// labels stay whole, as in example.co.uk.
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
