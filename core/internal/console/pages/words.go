package pages

import (
	"context"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/core/host"
	templ "github.com/verge-id/verge/core/internal/templrt"
	"github.com/verge-id/verge/core/internal/usage"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
)

// labelled is a badge: a tone and its word.
type labelled struct{ tone, word string }

// notInFile marks a publisher or integration that the configuration file no longer contains.
const notInFile = "No longer in the file"

func badgesOf(i operate.Integration) []labelled {
	tone, word := integrationTone(i)
	badges := []labelled{{tone, word}}
	if i.Staged != nil && i.Archived == nil {
		badges = append(badges, labelled{Wait, "Change staged"})
	}
	if i.Removed && i.Archived == nil {
		badges = append(badges, labelled{Wait, notInFile})
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

// revocable reports whether a token can be revoked. The token of the configuration is changed there, and an
// expired token need not be revoked.
func revocable(now time.Time, t operate.OperatorToken) bool {
	return t.ID != operate.Configured && t.Revoked == nil && (t.Expires == nil || now.Before(*t.Expires))
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

// stepState returns whether a step is done, next or later.
func stepState(steps []operate.Step, n int) string {
	if steps[n].Done {
		return "done"
	}
	if slices.IndexFunc(steps, func(s operate.Step) bool { return !s.Done }) == n {
		return "next"
	}
	return "later"
}

// words are the texts of a step to go live.
type words struct {
	title, text, act string
	op               operate.Right // required for the step
}

// stepWords are the steps to go live.
var stepWords = map[string]words{
	operate.StepIntegration: {"Create an integration",
		"It defines what users have to prove, and with which methods.",
		"Create an integration", operate.CreateIntegration},
	operate.StepWebhook: {"Set up its webhook",
		"Enter the URL of your receiver, add the secret to it, and run the signed test until it passes. " +
			"The test shows what to fix. If you have no receiver, switch events off in the integration.",
		"Set up the webhook", operate.StageWebhook},
	operate.StepKey: {"Create a secret key",
		"Your server starts sessions with it.",
		"Create a key", operate.CreateKey},
	operate.StepSession: {"Complete a session",
		"Start a test session in the test console, and approve it in the tab that opens. This " +
			"needs no server. Or start a session from your server. It is counted within a minute.",
		"Open the test console", operate.StartTestSession},
	operate.StepMethod: {"Choose a method that verifies people",
		"The sandbox does not verify real users. Replace it with other methods in the settings of the " +
			"integration. The webhook stays ready.",
		"Choose methods", operate.ChangeIntegration},
}

// fromServer are the words of the step session if no test session can be started.
var fromServer = words{"Complete a session",
	"Start a session from your server with the secret key, and complete it. It is counted within a minute.",
	"Show the call", operate.ListKeys}

// onlyReal are the words of the step method if the service has no sandbox.
var onlyReal = words{"Offer a method that verifies people",
	"All methods of this service do. This step is done when the first integration is ready.",
	"Go to the integrations", operate.ListIntegrations}

// inDev are the words of the step method in development, where it is never done.
var inDev = words{title: "Choose a method that verifies people",
	text: "This service is for development: its methods do not verify real users. To go live, use a " +
		"production service with its own methods."}

// wordsOf returns the texts of a step. A publisher without an integration can still create one for tests.
func wordsOf(d OverviewData, s operate.Step) words {
	testable := s.Integration != "" || d.Sandbox && !begun(d.Steps)
	switch {
	case s.Name == operate.StepSession && !testable:
		return fromServer
	case s.Name == operate.StepMethod && d.Dev:
		return inDev
	case s.Name == operate.StepMethod && !d.Sandbox:
		return onlyReal
	}
	return stepWords[s.Name]
}

// stepPath returns the path of the page for a step.
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
	case operate.StepMethod:
		if s.Integration == "" {
			return f.path("integrations")
		}
		return f.path("integrations", s.Integration) + "#save-integration-methods"
	}
	if s.Integration == "" {
		return f.path("keys") + "#first-call"
	}
	return with(f.path("test"), "integration", s.Integration) + "#walk"
}

func atLeast(n int, more bool, one, many string) string {
	if more {
		return grouped(n) + plus(more) + " " + many
	}
	return count(n, one, many)
}

// plus follows a number that may be larger.
func plus(more bool) string {
	if more {
		return "+"
	}
	return ""
}

// undeliveredPath returns the path of an integration's deliveries in a state.
func undeliveredPath(publisher string, i operate.IntegrationUndelivered, state string) string {
	return with(PublisherPath(publisher, "deliveries"), "integration", i.Integration, "state", state)
}

// proves returns the proof that an integration requires. The challenge age applies to estimates, which L2
// does not accept.
func proves(i operate.Integration) string {
	proof := "a proof of " + strconv.Itoa(i.Minimum()) + " or older"
	if i.Level == "L2" {
		return "L2: " + proof
	}
	return i.Level + ": an estimate of at least " + strconv.Itoa(i.ChallengeAge) + ", or " + proof
}

// proved returns the proof that a session required. The challenge age applies to estimates, which L2 does not
// accept.
func proved(s operate.Session) string {
	if s.Level == "L2" {
		return "L2: a proof of the integration's minimum age"
	}
	return s.Level + ": an estimate of at least " + strconv.Itoa(s.ChallengeAge) +
		", or a proof of the integration's minimum age"
}

// testedWords returns the time and the result of the last webhook test.
func testedWords(now time.Time, r *operate.Readiness) string {
	switch {
	case r == nil:
		return "none since the webhook was set up or changed"
	case r.Ready:
		return ago(now, r.At) + ", passed"
	}
	return ago(now, r.At) + ", failed"
}

// begun reports whether a publisher has an integration.
func begun(steps []operate.Step) bool { return len(steps) > 0 && steps[0].Done }

// passkeyName returns the name of a passkey. Earlier releases stored no names.
func passkeyName(p operate.Passkey) string {
	if p.Name == "" {
		return "Passkey"
	}
	return p.Name
}

func eventsWord(i operate.Integration) string {
	if i.Webhook.Off {
		return "switched off"
	}
	return "sent to the webhook"
}

// offers returns the names of an integration's methods.
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

func nextOf(path, next string) string { return nextBy(path, "after", next) }

// nextBy returns the address of the next part of a list whose cursor has that name. Without one it is "".
func nextBy(path, cursor, next string) string {
	if next == "" {
		return ""
	}
	return with2(path, cursor, next)
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
	return response(a.Status, a.Cause) + ", " + took(a.TookMS)
}

func deliveriesPath(f *Frame, filter operate.DeliveryQuery, after string) string {
	return with(f.path("deliveries"), "integration", filter.Integration, "state", filter.State,
		"type", filter.Type, "after", after)
}

// moment is one point of a session's timeline.
type moment struct {
	at                time.Time
	tone, text, badge string
	href              string // the event's id
}

// failedStep describes a failed step: the method, and the setting that caused it.
func failedStep(s operate.SessionStep) string {
	text := "Method " + s.Method + ": " + strings.ReplaceAll(s.Result, "_", " ")
	if s.Setting != "" {
		text += ", setting " + s.Setting
	}
	if s.Detail != "" {
		text += " (" + s.Detail + ")"
	}
	return text
}

// momentsOf returns the events of a session in the order of time.
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
			badge: word, href: e.Place})
	}
	for _, step := range s.Steps {
		moments = append(moments, moment{at: step.At, tone: Wait, text: failedStep(step), badge: step.Reason})
	}
	slices.SortStableFunc(moments, func(a, b moment) int { return a.at.Compare(b.at) })
	return moments
}

// The options of selects.
var (
	eventOptions = []Option{{"", "Send events"}, {"1", "Send no events: my server requests each outcome"}}

	secretOptions = []Option{{"new", "A new secret, shown once"}, {"keep", "The current secret"}}

	stateOptions = []Option{{"", "All states"}, {operate.DeliveryDelivered, "Delivered"},
		{operate.DeliveryWaiting, "Waiting"}, {operate.DeliveryDead, "Failed"}}

	operatorOptions = []Option{{string(operate.RoleOperator), "Operator: full access"},
		{string(operate.RoleViewer), "Viewer: read only"}}

	eventTypes    = named(webhook.Types()...)
	deliveryTypes = named(append(webhook.Types(), webhook.TypeFailing)...)
)

// named returns options with their values as texts.
func named(values ...string) (all []Option) {
	for _, v := range values {
		all = append(all, Option{v, v})
	}
	return all
}

func keyOptions(integrations []operate.Integration) []Option {
	all := []Option{{"", "Secret key, for your server"}}
	for _, i := range integrations {
		if i.Archived == nil {
			all = append(all, Option{i.ID, "Public key, for browsers: " + i.Name})
		}
	}
	return all
}

// keyHint returns the hint for the choice of a key, if integrations may be missing there.
func keyHint(integrations []operate.Integration) string {
	if len(keyOptions(integrations)) <= operate.MaxLimit {
		return ""
	}
	return "At most " + strconv.Itoa(operate.MaxLimit) +
		" integrations are listed. For another one, open it and select “Keys”."
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
		return "When you save the first URL, you receive a secret. It is shown once."
	case i.Ready:
		return "A change takes effect immediately, and stops new sessions in production until the signed " +
			"test passes again. To change it without interruption, stage it on the page Webhook."
	}
	return "The secret does not change."
}

// tiles are the outcomes that the overview shows. The codes of failures are one tile.
var tiles = []struct {
	series, word string
	outcomes     []string
}{
	{"started", "Started", []string{host.OutcomeStarted}},
	{"completed", "Completed", []string{host.OutcomeCompleted}},
	{"failed", "Failed", []string{host.OutcomeRejected, host.OutcomeMaxAttempts, host.OutcomeUnknown}},
	{"cancelled", "Cancelled", []string{host.OutcomeCancelled}},
	{"expired", "Expired", []string{host.OutcomeExpired}},
}

func sumOf(counts map[string]uint64, outcomes []string) (n int) {
	for _, o := range outcomes {
		n += int(counts[o])
	}
	return n
}

// plotted is a plot of days, with its legend and its table. Package usage draws it and escapes the title.
func plotted(id, title string, days []usage.Day) templ.Component {
	return templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
		_, err := w.Write(usage.Plot(id, title, days))
		return err
	})
}

func usageTitle(d UsageData) string {
	if d.Integration.ID == "" {
		return "Sessions of all integrations"
	}
	return "Sessions of " + d.Integration.Name
}

// exchangeTone returns the tone of the response to a test event.
func exchangeTone(x operate.Exchange) string {
	if x.Delivered {
		return Good
	}
	return Bad
}

// passkeysCounted describes the number of users' passkeys.
func passkeysCounted(u operate.UserPasskeys) string {
	switch {
	case u.More && u.Count == 0:
		return "Too many passkeys of this publisher's sites have ended to count the others here."
	case u.More:
		return "Users have more than " + strconv.Itoa(u.Count) +
			" passkeys that were created at this publisher's sites."
	case u.Count == 0:
		return "No user has a passkey that was created at this publisher's sites."
	case u.Count == 1:
		return "One passkey of a user was created at this publisher's sites."
	}
	return strconv.Itoa(u.Count) + " passkeys of users were created at this publisher's sites."
}

// webhookAct returns the text of the link to the webhook of an integration that is not ready.
func webhookAct(i operate.Integration) string {
	if i.Webhook.URL == "" {
		return "Set up the webhook"
	}
	return "Go to the test"
}

// firstCall is a request that starts a session, for a terminal.
func firstCall(baseURL string, i operate.Integration) string {
	origin := "https://shop.example"
	if len(i.CallbackOrigins) > 0 {
		origin = i.CallbackOrigins[0]
	}
	return "curl " + baseURL + web.StartPath + " \\\n" +
		"  -H \"Authorization: Bearer $SECRET_KEY\" \\\n  -H 'Content-Type: application/json' \\\n" +
		"  -d '{\"integration_id\":\"" + i.ID + "\",\"callback_url\":\"" + origin + "/callback\"}'"
}

// secondCall is a request that exchanges a result token for the result, for a terminal.
func secondCall(baseURL string) string {
	return "curl " + baseURL + web.ValidatePath + " \\\n" +
		"  -H \"Authorization: Bearer $SECRET_KEY\" \\\n  -H 'Content-Type: application/json' \\\n" +
		"  -d '{\"result_token\":\"'\"$RESULT_TOKEN\"'\"}'"
}

// reasonWord explains the reason why an event failed or is postponed.
func reasonWord(reason string) string {
	switch reason {
	case "refused":
		return "the receiver rejected it"
	case "exhausted":
		return "all attempts failed"
	case "no_target":
		return "the integration no longer exists or has no address for this event"
	case "test":
		return "a test event is sent only once"
	case "no_secret":
		return "this service cannot read the webhook's secret; its operator must fix this"
	case "key_awaited":
		return "this service is waiting for one of its keys"
	case "unreadable":
		return "this service can no longer read the event"
	}
	return reason
}

// invitedRole returns the preselected role of an invitation: the first member must be able to invite others.
func invitedRole(d MembersData) string {
	if len(d.Items) == 0 && len(d.Invited.Items) == 0 {
		return string(operate.RoleAdmin)
	}
	return string(operate.RoleDeveloper)
}

// webhookStep returns the next step for an integration that is not ready. The integration's name follows.
func webhookStep(i operate.Integration) string {
	if i.Webhook.URL == "" {
		return "Set up the webhook of "
	}
	return "Test the webhook of "
}
