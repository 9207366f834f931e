package lifecycle

import (
	"errors"

	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/method"
)

// ForMethod returns the session as a method sees it. language is the page's language, attempts is the number
// of failed attempts, and returnURL is the URL to which another site sends the browser back.
func (s Session) ForMethod(name, language string, attempts int, returnURL string) method.Session {
	return method.Session{ID: s.Text, Level: s.ID.Level.String(), ChallengeAge: s.ID.ChallengeAge,
		MinimumAge: s.Integration.Minimum(), Language: language, ExpiresAt: s.ID.Expires(), User: s.User,
		Attempt: attempts, ReturnURL: returnURL, Settings: s.Integration.MethodSettings[name]}
}

// WhyFailed returns an error of a method for the log and the record.
func WhyFailed(name string, err error) session.Step {
	step := session.Step{Method: name}
	step.Result, step.Reason = method.WhyOf(err)
	if setting, ok := errors.AsType[*method.SettingError](err); ok {
		step.Setting, step.Detail = setting.Setting, setting.Detail
	}
	return step
}
