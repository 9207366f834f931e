package pages

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/timestamp"
	"github.com/verge-id/verge/core/operate"
)

// at writes a time for people, to the second.
func at(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04:05") }

// day writes the day of a time.
func day(t time.Time) string { return t.UTC().Format("2 Jan 2006") }

// lastMoment returns the time before an end. A key that ends at midnight was valid on the day before.
func lastMoment(end time.Time) time.Time { return end.Add(-time.Millisecond) }

// dayOf writes a day that is written as 2026-11-20.
func dayOf(text string) string {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return text
	}
	return day(t)
}

// machine writes a time as programs read it.
func machine(t time.Time) string { return timestamp.Text(t) }

// ago returns the time since t, or until t.
func ago(now, t time.Time) string {
	d := now.Sub(t)
	if d < 0 && -d < time.Second {
		return "now"
	}
	if d < 0 {
		return "in " + roughly(ahead(-d))
	}
	if d < 5*time.Second {
		return "just now"
	}
	return roughly(d) + " ago"
}

// ahead rounds a long wait: 23 hours and 59.9 minutes are 24 hours.
func ahead(d time.Duration) time.Duration {
	if d < time.Hour {
		return d
	}
	return d.Round(time.Minute)
}

func roughly(d time.Duration) string {
	switch {
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + " s"
	case d < time.Hour:
		return strconv.Itoa(int(d.Minutes())) + " min"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + " h"
	}
	return strconv.Itoa(int(d.Hours()/24)) + " days"
}

// took writes the duration of an exchange.
func took(ms int64) string {
	if ms < 10_000 {
		return strconv.FormatInt(ms, 10) + " ms"
	}
	return strconv.FormatFloat(float64(ms)/1000, 'f', 1, 64) + " s"
}

// count writes a number with its noun.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(n) + " " + many
}

// grouped writes a number with commas between thousands.
func grouped(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// called returns the name of an item, or its id if it has no name: earlier releases did not require one.
func called(name, id string) string {
	if name == "" {
		return id
	}
	return name
}

// short shortens a long id for a table. The whole id is in a title.
func short(id string) string {
	if len(id) <= 20 {
		return id
	}
	return id[:12] + "…" + id[len(id)-4:]
}

// eventWord returns a type of event without the common prefix.
func eventWord(typ string) string { return strings.TrimPrefix(typ, "verification.") }

// roleWords describes the rights of a role.
func roleWords(r operate.Role) string {
	switch r {
	case operate.RoleOperator:
		return "Full access."
	case operate.RoleAdmin:
		return "Full access to this publisher, including members and archiving."
	case operate.RoleDeveloper:
		return "Integrations, webhooks, keys and tests. No members, no archiving."
	case operate.RoleViewer:
		return "Read-only access."
	}
	return ""
}

// roleOptions are the roles that a member can have.
var roleOptions = []Option{
	{string(operate.RoleDeveloper), "Developer: integrations, webhooks, keys, tests"},
	{string(operate.RoleAdmin), "Admin: full access, including members and archiving"},
	{string(operate.RoleViewer), "Viewer: read only"},
}

// deliveryTone returns the tone and the word of a delivery's state.
func deliveryTone(state string) (tone, word string) {
	switch state {
	case operate.DeliveryDelivered:
		return Good, "Delivered"
	case operate.DeliveryWaiting:
		return Wait, "Waiting"
	case operate.DeliveryDead:
		return Bad, "Failed"
	}
	return Idle, state
}

// sessionTone returns the tone and the word of a session's status.
func sessionTone(status string) (tone, word string) {
	switch status {
	case "COMPLETED":
		return Good, "Completed"
	case "PENDING":
		return Wait, "Pending"
	case "FAILED":
		return Bad, "Failed"
	case "EXPIRED":
		return Idle, "Expired"
	}
	return Idle, status
}

// failureWords explains a failure code to developers.
func failureWords(code string) string {
	switch code {
	case "PROVIDER_REJECTED":
		return "The method rejected the user, for example because of the age."
	case "USER_CANCELLED":
		return "The user stopped the verification."
	case "TIMEOUT":
		return "The user did not finish within ten minutes."
	case "MAX_ATTEMPTS":
		return "Too many attempts failed."
	case "UNKNOWN":
		return "The method returned no reason."
	}
	return ""
}

// integrationTone returns the tone and the word of an integration's state.
func integrationTone(i operate.Integration) (tone, word string) {
	switch {
	case i.Archived != nil:
		return Idle, "Archived"
	case i.Webhook.Off:
		return Good, "Ready, no events"
	case i.Ready:
		return Good, "Ready"
	case i.Webhook.URL == "":
		return Wait, "No webhook"
	case i.Readiness == nil:
		return Wait, "Not tested"
	}
	return Bad, "Not ready"
}

// response describes a receiver's response.
func response(status int, cause string) string {
	if status != 0 {
		return strconv.Itoa(status)
	}
	if words := host.FetchCause(cause); words != "" {
		return "No response: " + words
	}
	if cause != "" {
		return "No response: " + cause
	}
	return "No response"
}

// responseIn returns response for the middle of a sentence.
func responseIn(status int, cause string) string {
	return strings.Replace(response(status, cause), "No response", "no response", 1)
}

// responseTone returns the tone of a receiver's response.
func responseTone(status int) string {
	if status >= 200 && status < 300 {
		return Good
	}
	return Bad
}

// causeAdvice returns the advice for a failed attempt.
func causeAdvice(a operate.Attempt) string {
	switch {
	case a.Status >= 300 && a.Status < 400:
		return "Redirects are not followed. Set the webhook URL to the target of the redirect."
	case a.Status == 401 || a.Status == 403:
		return "The receiver rejected the event, so it is not retried automatically. Check the " +
			"webhook secret, and allow these requests in your login or firewall."
	case a.Status == 404 || a.Status == 410:
		return "The address does not exist, so the event is not retried automatically. Check the path of " +
			"the webhook URL."
	case a.Status >= 400 && a.Status < 500:
		return "The receiver rejected the event, so it is not retried automatically. Check the " +
			"receiver's log."
	case a.Status >= 500:
		return "The receiver failed. Check its log at this time."
	}
	switch a.Cause {
	case host.FetchTimeout:
		return "Respond sooner: store the event, return 200, and process it afterwards."
	case host.FetchTLS:
		return "Check the certificate: its name, its expiry date, and the intermediate certificates."
	case host.FetchDNS:
		return "Check the host name of the webhook URL."
	case host.FetchBlocked:
		return "Events are sent to public addresses only."
	case host.FetchStatusLine, host.FetchHeaderLine, host.FetchHeaderSize, host.FetchCut,
		host.FetchMalformed:
		return "Check the whole response with `curl -v`: a proxy in front of the receiver may have " +
			"changed it."
	case host.FetchRefused:
		return "Check that the receiver is running, and check the port of the webhook URL."
	}
	return ""
}

// actorWord returns the name of an actor.
func actorWord(e operate.AuditEntry) string {
	switch {
	case e.ActorKind == operate.KindFile:
		return "Configuration file"
	case e.ActorName != "":
		return e.ActorName
	}
	return e.ActorID
}

// nameOfWho returns the name of the signed-in person. A sign-in link need not have a name.
func nameOfWho(who operate.Actor) string {
	if who.Name == "" {
		return kindWord(who.Kind)
	}
	return who.Name
}

// kindWord returns the word for a kind of actor.
func kindWord(kind string) string {
	switch kind {
	case operate.KindOperator:
		return "Operator"
	case operate.KindMember:
		return "Member"
	case operate.KindLink:
		return "Sign-in link"
	case operate.KindFile:
		return "File"
	}
	return kind
}

// ownWords describes an action of people on their own sign-in, sessions and passkeys, in the words of the
// audit.
func ownWords(op operate.Operation) string {
	switch op {
	case "operator.sign-in":
		return "Signed in with an operator token"
	case "member.sign-in":
		return "Signed in"
	case "member.enrol":
		return "Accepted an invitation"
	case "link.use":
		return "Used a sign-in link"
	case "passkey.add":
		return "Added a passkey"
	case "passkey.remove":
		return "Removed a passkey"
	case "session.end":
		return "Signed out in another browser"
	}
	return ""
}

func operationWord(op operate.Operation) string {
	return cmp.Or(op.Words(), ownWords(op), string(op))
}

// lines writes a list for a textarea.
func lines(list []string) string { return strings.Join(list, "\n") }

// indented writes JSON with line breaks, and other text unchanged.
func indented(body string) string {
	var out bytes.Buffer
	if json.Indent(&out, []byte(body), "", "  ") != nil {
		return body
	}
	return out.String()
}

// headerLines writes headers in the order of their names.
func headerLines(header map[string]string) string {
	names := make([]string, 0, len(header))
	for name := range header {
		names = append(names, name)
	}
	slices.Sort(names)
	var out strings.Builder
	for _, name := range names {
		fmt.Fprintf(&out, "%s: %s\n", name, header[name])
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// listTone returns the tone and the word for the state of a trusted list.
func listTone(l operate.TrustList) (tone, word string) {
	switch l.State {
	case operate.ListGood:
		return Good, "Good"
	case operate.ListLate:
		return Wait, "Late"
	case operate.ListTooOld:
		return Bad, "Too old"
	case operate.ListDamaged:
		return Bad, "Damaged"
	}
	return Bad, "Missing"
}

// listNumber returns the sequence number of a stored list. A VICAL may have none.
func listNumber(l operate.TrustList) string {
	if l.Sequence == 0 {
		return ""
	}
	return strconv.FormatUint(l.Sequence, 10)
}
