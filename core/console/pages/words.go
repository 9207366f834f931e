package pages

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/webhook"
)

// labelled is a badge: a tone and its word.
type labelled struct{ tone, word string }

func badgesOf(i operate.Integration) []labelled {
	tone, word := integrationTone(i)
	badges := []labelled{{tone, word}}
	if i.Staged != nil && i.Archived == nil {
		badges = append(badges, labelled{Wait, "Change staged"})
	}
	return badges
}

func sessionBadges(status string) []labelled {
	tone, word := sessionTone(status)
	return []labelled{{tone, word}}
}

func deliveryBadges(state string) []labelled {
	tone, word := deliveryTone(state)
	return []labelled{{tone, word}}
}

func keyBadges(now time.Time, k operate.Key) []labelled {
	switch {
	case k.Revoked != nil:
		return []labelled{{Idle, "Revoked"}}
	case !k.Active(now):
		return []labelled{{Idle, "Expired"}}
	case k.Expires != nil && k.Expires.Sub(now) < 7*24*time.Hour:
		return []labelled{{Wait, "Expires soon"}}
	}
	return []labelled{{Good, "Active"}}
}

func tokenBadges(now time.Time, t operate.OperatorToken) []labelled {
	switch {
	case t.Revoked != nil:
		return []labelled{{Idle, "Revoked"}}
	case t.Expires != nil && !now.Before(*t.Expires):
		return []labelled{{Idle, "Expired"}}
	}
	return []labelled{{Good, "Active"}}
}

// revocable: the token of the configuration is changed there, and one that is over need not be revoked.
func revocable(now time.Time, t operate.OperatorToken) bool {
	return t.ID != "configuration" && t.Revoked == nil && (t.Expires == nil || now.Before(*t.Expires))
}

// done counts the steps that are done.
func done(steps []operate.Step) (n int) {
	for _, s := range steps {
		if s.Done {
			n++
		}
	}
	return n
}

// stepState says whether a step is done, is the next one, or comes later.
func stepState(steps []operate.Step, n int) string {
	if steps[n].Done {
		return "done"
	}
	if slices.IndexFunc(steps, func(s operate.Step) bool { return !s.Done }) == n {
		return "next"
	}
	return "later"
}

// stepWords are the steps to go live.
var stepWords = map[string]struct {
	title, text, act string
	op               operate.Operation
}{
	operate.StepIntegration: {"Create an integration",
		"It says what users have to prove, and by which methods.",
		"Create an integration", operate.IntegrationCreate},
	operate.StepWebhook: {"Make its webhook ready",
		"Set where events go, put the secret into your receiver, and run the signed test until it passes. " +
			"It shows what to mend.",
		"Set up the webhook", operate.WebhookChange},
	operate.StepKey: {"Create a secret key",
		"Your server starts sessions with it.",
		"Create a key", operate.KeyCreate},
	operate.StepSession: {"Complete a session",
		"Walk through one in the test console, or start one from your server. It is done when your server has " +
			"fetched the result.",
		"Open the test console", operate.SessionTest},
}

// stepPath is where a step is done.
func stepPath(f *Frame, s operate.Step) string {
	switch s.Name {
	case operate.StepIntegration:
		return f.path("integrations", "new")
	case operate.StepWebhook:
		if s.Integration == "" {
			return f.path("integrations")
		}
		return f.path("integrations", s.Integration, "webhook")
	case operate.StepKey:
		return f.path("keys")
	}
	return with(f.path("test"), "integration", s.Integration)
}

func atLeast(n int, more bool, one, many string) string {
	if more {
		return grouped(n) + "+ " + many
	}
	return count(n, one, many)
}

// proves says what an integration demands.
func proves(i operate.Integration) string {
	text := "Level " + i.Level + ", challenge age " + strconv.Itoa(i.ChallengeAge)
	if i.MinimumAge > 0 {
		text += ", minimum age " + strconv.Itoa(i.MinimumAge)
	}
	return text
}

// offers are the names of an integration's methods.
func offers(i operate.Integration) string { return strings.Join(i.Offers(), ", ") }

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

func nameOf(all []operate.Integration, id string) string {
	for _, i := range all {
		if i.ID == id {
			return i.Name
		}
	}
	return short(id)
}

func nextOf(path, next string) string {
	if next == "" {
		return ""
	}
	return with2(path, "after", next)
}

// with2 adds a pair to a path that may have a query.
func with2(path, name, value string) string {
	added := with("", name, value)
	if strings.Contains(path, "?") {
		return path + "&" + strings.TrimPrefix(added, "?")
	}
	return path + added
}

func isPage(is bool) string {
	if is {
		return "page"
	}
	return "false"
}

func lastAnswer(d operate.Delivery) string {
	if len(d.Attempts) == 0 {
		return "none yet"
	}
	a := d.Attempts[len(d.Attempts)-1]
	return answer(a.Status, a.Cause) + ", " + took(a.TookMS)
}

func deliveriesPath(f *Frame, filter operate.DeliveryFilter, after string) string {
	return with(f.path("deliveries"), "integration", filter.Integration, "state", filter.State,
		"type", filter.Type, "after", after)
}

// moment is one point of a session's timeline.
type moment struct {
	at                time.Time
	tone, text, badge string
	href              string // the event's id
}

// momentsOf tells a session in the order of time.
func momentsOf(s operate.Session) []moment {
	moments := []moment{{at: s.Started, tone: Idle, text: "Started"}}
	if s.Ended != nil {
		tone, word := sessionTone(s.Status)
		moments = append(moments, moment{at: *s.Ended, tone: tone, text: word})
	}
	for _, e := range s.Events {
		tone, word := deliveryTone(e.State)
		at := e.Created
		if len(e.Attempts) > 0 {
			at = e.Attempts[len(e.Attempts)-1].At
		}
		moments = append(moments, moment{at: at, tone: tone, text: "Event " + eventWord(e.Type),
			badge: word, href: e.Event})
	}
	slices.SortStableFunc(moments, func(a, b moment) int { return a.at.Compare(b.at) })
	return moments
}

func newestFirst(days []operate.UsageDay) []operate.UsageDay {
	days = slices.Clone(days)
	slices.Reverse(days)
	return days
}

// What there is to choose from.
var (
	levelOptions = []Option{{"L1", "L1: an estimate is enough"}, {"L2", "L2: a proof of age"}}

	passkeyOptions = []Option{{"off", "Off"}, {"publisher", "Yes, for sites of this publisher"},
		{"service", "Yes, for every site of this service"}}

	eventOptions = []Option{{"", "Send events"}, {"1", "Send none: my server asks for each outcome"}}

	secretOptions = []Option{{"new", "A new one, shown once"}, {"keep", "The present one"}}

	stateOptions = []Option{{"", "All states"}, {operate.DeliveryDelivered, "Delivered"},
		{operate.DeliveryWaiting, "Waiting"}, {operate.DeliveryDead, "Given up"}}

	operatorOptions = []Option{{string(operate.RoleOperator), "Operator: sees and changes everything"},
		{string(operate.RoleViewer), "Viewer: looks, changes nothing"}}

	eventTypes = func() (all []Option) {
		for _, t := range EventTypes {
			all = append(all, Option{t, t})
		}
		return all
	}()
)

// EventTypes are the types that can be sent as a test.
var EventTypes = []string{webhook.TypeStarted, webhook.TypeCompleted, webhook.TypeFailed, webhook.TypeExpired,
	webhook.TypeCancelled}

func keyOptions(integrations []operate.Integration) []Option {
	all := []Option{{"", "Secret key, for your server"}}
	for _, i := range integrations {
		if i.Archived == nil {
			all = append(all, Option{i.ID, "Public key, for browsers: " + i.Name})
		}
	}
	return all
}

func offValue(i operate.Integration) string {
	if i.Webhook.Off {
		return "1"
	}
	return ""
}

func webhookHint(i operate.Integration) string {
	switch {
	case i.Webhook.URL == "":
		return "With the first URL you get a secret, shown once."
	case i.Ready:
		return "A change here holds at once, and stops new sessions in production until the signed test has passed " +
			"again. To change it without interruption, stage it on the page Webhook."
	}
	return "The secret stays as it is."
}

// outcomes are what usage counts, in the order of the table. The first one is the sum.
var outcomes = []struct{ name, word string }{
	{"started", "Started"},
	{"completed", "Completed"},
	{"failed", "Failed"},
	{"expired", "Expired"},
}

// Outcomes are the names of what usage counts.
func Outcomes() (names []string) {
	for _, o := range outcomes {
		names = append(names, o.name)
	}
	return names
}

func sum(days []operate.UsageDay, name string) (n int) {
	for _, d := range days {
		n += d.Counts[name]
	}
	return n
}

// plotted is the plot of usage, ready to be written as SVG.
type plotted struct {
	view, title string
	grid        []gridLine
	bars        []bar
	labels      []label
}

type gridLine struct{ x1, x2, y, label, text, word string }
type bar struct{ series, x, y, width, height, title string }
type label struct{ x, y, word string }

// Size of the plot, in its own units.
const (
	plotWidth, plotHeight = 720, 240
	plotLeft, plotRight   = 48, 8
	plotTop, plotBottom   = 12, 28
)

// plotOf stacks completed, failed and expired sessions for each day.
func plotOf(days []operate.UsageDay) plotted {
	most := 1
	for _, d := range days {
		n := 0
		for _, o := range outcomes[1:] {
			n += d.Counts[o.name]
		}
		most = max(most, n)
	}
	top := ceiling(most)
	inner, height := float64(plotWidth-plotLeft-plotRight), float64(plotHeight-plotTop-plotBottom)
	y := func(n int) float64 { return plotTop + height*(1-float64(n)/float64(top)) }
	p := plotted{view: fmt.Sprintf("0 0 %d %d", plotWidth, plotHeight)}
	if len(days) > 0 {
		p.title = fmt.Sprintf("Sessions by day, %s to %s. The table below has the numbers.",
			days[0].Day, days[len(days)-1].Day)
	}
	ticks := 4
	if top < 4 {
		ticks = top
	}
	for n := 0; n <= ticks; n++ {
		value := top * n / ticks
		p.grid = append(p.grid, gridLine{x1: unit(plotLeft), x2: unit(plotWidth - plotRight), y: unit(y(value)),
			label: unit(plotLeft - 8), text: unit(y(value) + 4), word: grouped(value)})
	}
	step := inner / float64(max(len(days), 1))
	width := max(step*0.72, 1)
	every := (len(days) + 7) / 8
	for n, d := range days {
		x := plotLeft + step*float64(n) + (step-width)/2
		at := 0
		for _, o := range outcomes[1:] {
			c := d.Counts[o.name]
			if c == 0 {
				continue
			}
			p.bars = append(p.bars, bar{o.name, unit(x), unit(y(at + c)), unit(width), unit(y(at) - y(at+c)),
				fmt.Sprintf("%s: %s %s", d.Day, grouped(c), strings.ToLower(o.word))})
			at += c
		}
		if n%every == 0 {
			p.labels = append(p.labels, label{unit(x + width/2), unit(plotHeight - 8), dayWord(d.Day)})
		}
	}
	return p
}

// ceiling is the smallest number for the top of the plot that divides well into four.
func ceiling(n int) int {
	if n <= 4 {
		return n
	}
	for unit := 1; ; unit *= 10 {
		for _, step := range []int{1, 2, 3, 5} {
			if top := 4 * step * unit; top >= n {
				return top
			}
		}
	}
}

func unit(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// dayWord writes 2026-11-20 as 20 Nov.
func dayWord(day string) string {
	t, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return day
	}
	return t.Format("2 Jan")
}
