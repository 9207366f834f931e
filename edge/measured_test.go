package edge

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
)

// slow is a Fetcher that takes its time and then answers with err.
type slow struct{ err error }

func (s slow) Fetch(context.Context, host.FetchRequest) (host.FetchResponse, error) {
	time.Sleep(10 * time.Millisecond)
	return host.FetchResponse{Status: 500}, s.err
}

func TestTheOtherSideIsMeasured(t *testing.T) {
	timeout := &host.FetchError{Reason: host.FetchTimeout, Err: errors.New("late")}
	for _, c := range []struct {
		name, method  string
		err           error
		event, reason string
	}{
		{"an answer, whatever its status", "bankid", nil, host.MethodFetched, ""},
		{"no answer", "bankid", timeout, host.MethodFetchFailed, host.FetchTimeout},
		{"an error that is no FetchError", "bankid", errors.New("x"), host.MethodFetchFailed,
			host.FetchNetwork},
		{"a webhook", "", timeout, "", ""},
	} {
		var told []host.Measurement
		f := measured{slow{c.err}, func(m host.Measurement) { told = append(told, m) }}
		resp, err := f.Fetch(t.Context(), host.FetchRequest{For: c.method})
		if resp.Status != 500 || err != c.err {
			t.Errorf("%s: the caller gets %d, %v", c.name, resp.Status, err)
		}
		if c.event == "" {
			if len(told) > 0 {
				t.Errorf("%s: %+v", c.name, told)
			}
			continue
		}
		if len(told) != 1 || told[0].Method != c.method || told[0].Event != c.event ||
			told[0].Reason != c.reason || told[0].Took < 10*time.Millisecond || told[0].Took > time.Minute {
			t.Errorf("%s: %+v", c.name, told)
		}
	}
}
