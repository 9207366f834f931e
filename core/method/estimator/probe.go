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
		r.Bad("the estimator answers %d: it does not accept %s; look at the file with it, at the "+
			"account there and at this machine's clock", status, credential)
	case status == 404 || status == 405 || status == 410 || status >= 300 && status < 400:
		r.Bad("the estimator answers %d: nothing takes pictures at this address; correct url", status)
	case status == 429:
		r.Bad("the estimator answers 429: it gets more requests than it allows; raise the limit there")
	case status >= 400 && status < 500:
		r.Good("the estimator refuses a request without a picture (status %d), as it should, and it "+
			"did not refuse %s; only a picture shows whether it accepts that", status, credential)
	case status != 200:
		r.Bad("the estimator answers %d to a request without a picture, so nothing can be said about the "+
			"authentication; look into its log", status)
	default:
		found, err := s.profile.understand(resp)
		switch {
		case err != nil:
			r.Bad("the estimator accepts the request, and its answer is not one of this profile: "+
				"%v; look whether profile and url belong together", err)
		case found.doubt == "":
			r.Bad("the estimator estimates an age although there was no picture; it must not be used")
		default:
			r.Good("the estimator accepts %s, and sees no face where there is no picture", credential)
		}
	}
	return r, nil
}
