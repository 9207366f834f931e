package openid4vp

import (
	"errors"

	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/web"
)

// fromBrowser judges what a wallet has answered by way of the browser: {"protocol", "data": {"response"}}.
// What does not verify fails the attempt, since the browser that asks is the one that has answered.
// method.ErrStep says that it answers something else than what the page asks.
func (o *openID) fromBrowser(s method.Session, q question, text string) (method.Decision, error) {
	answer, err := web.ReadForeign([]byte(text))
	if err != nil {
		return method.Decision{}, method.ErrStep
	}
	if protocol, _ := answer.Value("protocol").Text(); protocol != browserProtocol || !o.settings.browser {
		return method.Decision{}, method.ErrStep
	}
	from, err := origin(s)
	if err != nil {
		return method.Decision{}, err
	}
	kept, err := o.opened(s, q, answer, from)
	var refusal *method.Refusal
	if errors.As(err, &refusal) {
		return method.Decision{Verdict: method.AttemptFailed, Reason: method.Unproven, Refusal: refusal}, nil
	}
	if err != nil {
		return method.Decision{}, err
	}
	return o.decide(s, kept)
}

// opened decrypts the answer and verifies what is inside.
func (o *openID) opened(s method.Session, q question, answer web.Object, from string) (string, error) {
	data, _ := answer.Value("data").Object()
	text, _ := data.Value("response").Text()
	encrypted, ok := decoded(text)
	if !ok {
		return "", refused("response_encoding")
	}
	key := private(q.browserKey)
	transcript := mdoc.DCAPITranscript(q.encryptionInfo(key.PublicKey()), from)
	response, err := mdoc.OpenHPKE(encrypted, key, transcript)
	if err != nil {
		return "", refusedBy(err)
	}
	return o.verify(response, s.MinimumAge, transcript)
}
