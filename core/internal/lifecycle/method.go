package lifecycle

import "github.com/verge-id/verge/core/method"

// ForMethod returns the session as a method sees it. language is the page's language, attempts is the number
// of failed attempts, and returnURL is the URL to which another site sends the browser back.
func (s Session) ForMethod(name, language string, attempts int, returnURL string) method.Session {
	return method.Session{ID: s.Text, Level: s.ID.Level.String(), ChallengeAge: s.ID.ChallengeAge,
		MinimumAge: s.Integration.Minimum(), Language: language, ExpiresAt: s.ID.Expires(), User: s.User,
		Attempt: attempts, ReturnURL: returnURL, Settings: s.Integration.MethodSettings[name]}
}
