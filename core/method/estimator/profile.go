package estimator

import (
	"context"
	"fmt"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/strictjson"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/problem"
)

// profile is how one estimator is asked and understood.
type profile struct {
	url     string   // where it is, unless the settings say it; "": they must
	members []string // settings of its own

	// credential is the setting with the token or the key.
	credential string

	// configure reads those settings, secrets and keys into s.
	configure func(s *settings, c method.Config, o strictjson.Object, wrong *problem.List)

	// request makes the request that carries a picture.
	request func(ctx context.Context, s settings, h method.Host, picture []byte) (host.FetchRequest, error)

	// doubt reads a response other than 200. It returns "" if the response is not about the picture.
	doubt func(status int, response strictjson.Object) method.Reason

	// read reads a response of status 200. The error is a *method.Rejection.
	read func(response strictjson.Object) (estimate, error)
}

// profiles has every profile under its name in the settings.
var profiles = map[string]profile{
	"plain": plain,
	"yoti":  yoti,
}

// estimate is an estimator's result for a picture.
type estimate struct {
	age, deviation float64 // in years

	// doubt is the reason why the picture shows no age. If it is set, age and deviation are not.
	doubt method.Reason
}

// maxResponse is the maximum size of a response in bytes. A real one has about 100.
const maxResponse = 16 << 10

// understand reads an estimator's response.
func (p profile) understand(resp host.FetchResponse) (estimate, error) {
	if len(resp.Body) > maxResponse {
		return estimate{}, &method.Rejection{Reason: "answer_too_large"}
	}
	response, err := strictjson.ReadForeign(resp.Body)
	if resp.Status != 200 {
		if err == nil && p.doubt != nil {
			if doubt := p.doubt(resp.Status, response); doubt != "" {
				return estimate{doubt: doubt}, nil
			}
		}
		return estimate{}, p.statusError(resp.Status)
	}
	if err != nil {
		return estimate{}, &method.Rejection{Reason: "answer_not_json"}
	}
	return p.read(response)
}

// statusError returns the fix for a status, for operators. It contains no part of the response.
func (p profile) statusError(status int) error {
	rejection := &method.Rejection{Reason: "status"}
	switch status {
	case 401, 403:
		return &method.SettingError{Reason: rejection.Reason, Setting: p.credential,
			Err: fmt.Errorf("the estimator responded with status %d: it does not accept our token or "+
				"signature; check the token, the key and the clock", status)}
	case 402:
		return fmt.Errorf("the estimator responded with status %d: it asks for a payment: %w", status,
			rejection)
	case 429:
		return fmt.Errorf("the estimator responded with status %d: it receives more requests than it "+
			"allows: %w", status, rejection)
	}
	return fmt.Errorf("the estimator responded with status %d: %w", status, rejection)
}

// Ages and deviations that an estimate can have. Numbers beyond them come from a fault.
const (
	maxAge            = 150
	maxGivenDeviation = 100
)

// numbers reads an age and its deviation.
func numbers(o strictjson.Object, age, deviation string) (e estimate, err error) {
	var present, ok bool
	if e.age, present, ok = o.Number(age); !present {
		return estimate{}, &method.Rejection{Reason: "age_missing"}
	} else if !ok || e.age <= 0 || e.age > maxAge {
		return estimate{}, &method.Rejection{Reason: "age_out_of_range"}
	}
	if e.deviation, present, ok = o.Number(deviation); !present {
		return estimate{}, &method.Rejection{Reason: "deviation_missing"}
	} else if !ok || e.deviation <= 0 || e.deviation > maxGivenDeviation {
		return estimate{}, &method.Rejection{Reason: "deviation_out_of_range"}
	}
	return e, nil
}
