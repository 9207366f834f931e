package operate

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/verge-id/verge/core/integration"
)

// differences returns what differs between two versions of a publisher or of an integration, for the audit.
// No difference holds a secret. Of a webhook's address it has no query, since that may hold one.
func differences(was, is any) []change {
	var out []change
	add := func(field, from, to string) {
		if from != to {
			out = append(out, change{Field: field, From: from, To: to})
		}
	}
	switch is := is.(type) {
	case integration.Publisher:
		was := was.(integration.Publisher)
		add("name", was.Name, is.Name)
		add("archived", yes(was.Archived != nil), yes(is.Archived != nil))
	case integration.Integration:
		was := was.(integration.Integration)
		add("name", was.Name, is.Name)
		add("level", was.Level, is.Level)
		add("challenge_age", number(was.ChallengeAge), number(is.ChallengeAge))
		add("minimum_age", number(was.MinimumAge), number(is.MinimumAge))
		add("attempts", number(was.Attempts), number(is.Attempts))
		add("methods", strings.Join(was.Offers(), ", "), strings.Join(is.Offers(), ", "))
		add("method_settings", settings(was.MethodSettings), settings(is.MethodSettings))
		add("passkeys", was.Passkeys, is.Passkeys)
		add("callback_origins", strings.Join(was.CallbackOrigins, ", "), strings.Join(is.CallbackOrigins, ", "))
		add("browser_origins", strings.Join(was.BrowserOrigins, ", "), strings.Join(is.BrowserOrigins, ", "))
		add("webhook_off", yes(was.Webhook.Off), yes(is.Webhook.Off))
		add("webhook_url", shownURL(was.Webhook.URL), shownURL(is.Webhook.URL))
		add("archived", yes(was.Archived != nil), yes(is.Archived != nil))
	}
	return out
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}

func settings(m map[string]json.RawMessage) string {
	if len(m) == 0 {
		return ""
	}
	b, err := json.Marshal(m) // the names come in order
	if err != nil {
		return "unreadable"
	}
	return string(b)
}

// shownURL is an address without its query, which may hold a secret of the receiver.
func shownURL(url string) string {
	if before, _, cut := strings.Cut(url, "?"); cut {
		return before + "?…"
	}
	return url
}
