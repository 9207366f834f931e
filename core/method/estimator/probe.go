package estimator

import (
	"context"
	"fmt"

	"github.com/verge-id/verge/core/method"
)

// Probe is the method.Probe of the kind. It sends one request without a picture, with the credential of a
// real request. It can therefore check that the estimator is available and rejects that request, but not its
// result for a picture.
func Probe(ctx context.Context, c method.Config, h method.Host, _ string) (r method.Report, err error) {
	s, wrong := parse(c)
	if err := wrong.Err(); err != nil {
		return r, err
	}
	credential := "a bearer token"
	if s.key != "" {
		credential = "a signature by " + yotiAlgorithm
	}
	r.Fact("address", s.url)
	r.Fact("authentication", credential)
	r.Fact("highest deviation", fmt.Sprintf("%v years", s.limits.deviation))
	if s.limits.floor > 0 {
		r.Fact("floor", fmt.Sprintf("%v years", s.limits.floor))
	}
	r.Fact("proves", "the challenge age of an integration, by an estimate")

	e := &estimator{s, h}
	resp, err := e.send(ctx, nil)
	if err != nil {
		return r, err
	}
	switch status := resp.Status; {
	case status == 401 || status == 403:
		r.Bad("the estimator returns %d: it does not accept %s; check the file, the account at the "+
			"estimator and this machine's clock", status, credential)
	case status == 402:
		r.Bad("the estimator returns 402: it asks for a payment; check the account at the estimator")
	case status == 404 || status == 405 || status == 410 || status >= 300 && status < 400:
		r.Bad("the estimator returns %d: this address does not accept pictures; correct url", status)
	case status == 429:
		r.Bad("the estimator returns 429: it receives more requests than it allows; raise the limit there")
	case status >= 400 && status < 500:
		r.Good("the estimator rejects a request without a picture (status %d), as expected, and "+
			"not because of %s; only a picture shows whether it accepts the credential", status, credential)
	case status != 200:
		r.Bad("the estimator returns %d for a request without a picture, so the authentication "+
			"cannot be checked; check its log", status)
	default:
		found, err := s.profile.understand(resp)
		switch {
		case err != nil:
			r.Bad("the estimator accepts the request, but its response does not match this profile: "+
				"%v; check whether profile and url belong together", err)
		case found.doubt == "":
			r.Bad("the estimator returns an age for a request without a picture; do not use it")
		default:
			r.Good("the estimator accepts %s, and finds no face in a request without a picture", credential)
		}
	}
	return r, nil
}
