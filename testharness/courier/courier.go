// Package courier is a kind of method for tests whose response does not come from the browser. It is the
// smallest method.ResponseReceiver: its page has two addresses, and a program posts a response to one of
// them. It verifies no user, but counts as real, so that its responses belong to a browser.
//
// A response is JSON: {"answer":"approve","to":"<the address>","nonce":"<as on the page>"}. Like a wallet's,
// it is valid for one address only.
package courier

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/web"
)

// Kind describes the kind. It has the name courier.
var Kind = method.Kind{Name: "courier", Level: "L2",
	Open: func(_ method.Config, h method.Host) (method.Method, error) { return &courier{h.Random}, nil }}

// verdicts has the verdict of each answer. Three more answers have none.
var verdicts = map[string]method.Verdict{"approve": method.Approved, "reject": method.Rejected,
	"fail_attempt": method.AttemptFailed, "cancel": method.Cancelled}

const (
	nothing = "nothing" // a response without stored data; it cancels
	later   = "later"   // a response that cannot be verified now
	vast    = "vast"    // one of which more is to be kept than fits
)

type courier struct{ random io.Reader }

var _ method.ResponseReceiver = (*courier)(nil)

// Begin implements method.Method.
func (*courier) Begin(context.Context, method.Session) error { return nil }

// poll is the interval at which the waiting page reloads.
const poll = time.Second

// Show implements method.Method.
func (*courier) Show(s method.Session, state []byte) method.View {
	if s.ResponseURI == "" {
		return method.View{Choices: []string{"begin"}}
	}
	ask := func(to string) string {
		return "courier://?" + url.Values{"to": {to}, "nonce": {encoded(state)}}.Encode()
	}
	return method.View{Choices: []string{"cancel"}, Open: ask(s.ResponseURI + method.SameDevice),
		Code: ask(s.ResponseURI), Poll: poll}
}

func encoded(state []byte) string { return base64.RawURLEncoding.EncodeToString(state) }

// Act implements method.Method.
func (c *courier) Act(_ context.Context, _ method.Session, step method.Step) (method.Decision, error) {
	if step.Response != nil {
		if len(step.Response) == 0 {
			return method.Decision{Verdict: method.Cancelled}, nil
		}
		verdict, ok := verdicts[string(step.Response)]
		if !ok {
			return method.Decision{}, fmt.Errorf("courier: %d bytes were kept that it never keeps",
				len(step.Response))
		}
		return method.Decision{Verdict: verdict}, nil
	}
	switch step.Form.Get("outcome") {
	case "begin":
		nonce := make([]byte, 16)
		if _, err := io.ReadFull(c.random, nonce); err != nil {
			return method.Decision{}, err
		}
		return method.Decision{Verdict: method.Pending, State: nonce, Await: true}, nil
	case "cancel":
		return method.Decision{Verdict: method.Cancelled}, nil
	}
	return method.Decision{}, method.ErrStep
}

// Receive implements method.ResponseReceiver.
func (*courier) Receive(_ context.Context, _ method.Session, state []byte, c method.Call) ([]byte, error) {
	if web.MediaType(c.ContentType) != "application/json" {
		return nil, fmt.Errorf("%w: no JSON", method.ErrStep)
	}
	var posted struct{ To, Nonce, Answer string }
	if json.Unmarshal(c.Body, &posted) != nil {
		return nil, fmt.Errorf("%w: bad JSON", method.ErrStep)
	}
	to, nonce, answer := posted.To, posted.Nonce, posted.Answer
	switch {
	case to != c.Address || strings.HasSuffix(to, method.SameDevice) != c.Same:
		return nil, &method.Rejection{Reason: "another_address"}
	case nonce != encoded(state):
		return nil, &method.Rejection{Reason: "another_nonce"}
	case answer == nothing:
		return nil, nil
	case answer == later:
		return nil, errors.New("courier: asked to judge later")
	case answer == vast:
		return make([]byte, method.MaxKept+1), nil
	}
	if _, ok := verdicts[answer]; !ok {
		return nil, &method.Rejection{Reason: "unknown_answer"}
	}
	return []byte(answer), nil
}
