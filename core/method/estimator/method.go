// Package estimator is a kind of method that has an age estimated from a picture (contract 37). The user
// takes a still on a page with a camera. The picture goes once to an estimator over HTTP, without its
// metadata, and is kept nowhere.
//
// # Decisions
//
//   - A picture of no live person, of no face or of more than one is a failed attempt at any estimated age.
//   - So is an estimate with a larger deviation than the settings allow.
//   - An estimate at or over the session's challenge age is an approval.
//   - An estimate below the setting floor is a final no. There is no floor unless it is set.
//   - Any other estimate is a failed attempt. Another picture or another method may succeed.
//
// An estimator that is unavailable, rejects the request or returns an invalid response decides no session and
// costs no attempt.
//
// # Settings
//
//	profile     plain or yoti: how the estimator is asked
//	url         where it is; for yoti there is a default
//	deviation   the most standard deviation in years (default 6)
//	floor       the age below which an estimate is a final no (default 0: none)
//	sdk_id      yoti: the application's id
//	timestamp   yoti: the unit of timestamps, s (default) or ms
//
// The profile plain has the secret token. The profile yoti has the RSA key private_key. An integration may
// set a lower deviation and a higher floor.
package estimator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/steperror"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/problem"
)

// Kind describes it.
var Kind = method.Kind{
	Name:      "estimator",
	Level:     "L1",
	Estimates: true,
	Secrets:   []string{tokenName},
	Keys:      []string{keyName},
	URLs:      []string{"url"},
	Check: func(c method.Config) problem.List {
		_, wrong := parse(c)
		return wrong
	},
	Overrides: func(c method.Config) []method.Override {
		s, _ := parse(c)
		return s.limits.overrides()
	},
	Narrow: func(c method.Config, integration json.RawMessage) problem.List {
		s, wrong := parse(c)
		if len(wrong) > 0 {
			return wrong
		}
		_, wrong = narrow(s.limits, integration)
		return wrong
	},
	Signs: func(method.Config) map[string]string { return map[string]string{keyName: yotiAlgorithm} },
	Open: func(c method.Config, h method.Host) (method.Method, error) {
		s, wrong := parse(c)
		if err := wrong.Err(); err != nil {
			return nil, err
		}
		if s.key != "" && h.Sign == nil {
			return nil, errors.New("estimator: the profile needs a key, and the host has none")
		}
		return &estimator{s, h}, nil
	},
}

// Names of the secret and of the key in the profiles.
const (
	tokenName = "token"
	keyName   = "private_key"
)

// timeout bounds the whole exchange with an estimator.
const timeout = 10 * time.Second

type estimator struct {
	settings settings
	host     method.Host
}

// Begin implements method.Method. There is nothing to prepare.
func (*estimator) Begin(context.Context, method.Session) error { return nil }

// Show implements method.Method.
func (*estimator) Show(method.Session, []byte) method.View { return method.View{Camera: true} }

// Act implements method.Method: it has the age on the picture estimated. It ignores the form's other fields,
// so a browser cannot send an age or a verdict.
func (e *estimator) Act(ctx context.Context, s method.Session, step method.Step) (method.Decision, error) {
	if len(step.File) == 0 {
		return method.Decision{}, wrongFile(steperror.Missing, "there is none")
	}
	picture, err := cleanJPEG(step.File)
	if err != nil {
		return method.Decision{}, err
	}
	if s.ChallengeAge <= 0 {
		return method.Decision{}, &method.SettingError{Reason: "no_challenge_age", Setting: "challenge_age",
			Err: errors.New("estimator: the session has no challenge age to compare with")}
	}
	limits, wrong := narrow(e.settings.limits, s.Settings)
	if len(wrong) > 0 {
		return method.Decision{}, &method.SettingError{Reason: "integration_settings",
			Setting: wrong[0].Member, Err: fmt.Errorf("estimator: the integration's settings: %w", wrong)}
	}
	estimate, err := e.ask(ctx, picture)
	if err != nil {
		return method.Decision{}, fmt.Errorf("estimator: %w", err)
	}
	return decide(estimate, limits, s.ChallengeAge), nil
}

// ask has an age estimated.
func (e *estimator) ask(ctx context.Context, picture []byte) (estimate, error) {
	resp, err := e.send(ctx, picture)
	if err != nil {
		return estimate{}, err
	}
	return e.settings.profile.understand(resp)
}

// send sends the picture, once.
func (e *estimator) send(ctx context.Context, picture []byte) (host.FetchResponse, error) {
	req, err := e.settings.profile.request(ctx, e.settings, e.host, picture)
	if err != nil {
		return host.FetchResponse{}, err
	}
	req.Method, req.Timeout = "POST", timeout
	resp, err := e.host.FetchOnce(ctx, req)
	if err != nil {
		return host.FetchResponse{}, withoutAddress(err)
	}
	return resp, nil
}

// withoutAddress drops the cause of a failed fetch, whose text may have the address with the nonce in it. The
// reason stays.
func withoutAddress(err error) error {
	failed, ok := errors.AsType[*host.FetchError](err)
	if !ok {
		return errors.New("the estimator could not be asked")
	}
	return &host.FetchError{Reason: failed.Reason, Err: errors.New(host.FetchCause(failed.Reason))}
}

// decide returns the decision for an estimate. The challenge age is checked before the floor, so a floor
// above it rejects no user who has reached the challenge age. The estimate itself is not passed on: an
// approval has the age that it reaches, and any other verdict the setting behind it.
func decide(e estimate, l limits, challengeAge int) method.Decision {
	failed := func(why method.Reason, setting string) method.Decision {
		return method.Decision{Verdict: method.AttemptFailed, Reason: why, Setting: setting}
	}
	switch {
	case e.doubt != "":
		return failed(e.doubt, "")
	case e.deviation > l.deviation:
		return failed(method.Unsure, "deviation")
	case e.age >= float64(challengeAge):
		return method.Decision{Verdict: method.Approved, Age: challengeAge}
	case e.age < l.floor:
		return method.Decision{Verdict: method.Rejected, Setting: "floor"}
	}
	return failed(method.Below, "challenge_age")
}
