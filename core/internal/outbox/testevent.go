package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/delivery"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/strictjson"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/webhook"
)

// Exchange is one request to a receiver and its response, shown to the publisher that owns the receiver.
type Exchange struct {
	Attempt
	Verdict delivery.Verdict // the verdict on an event with that response
	Words   string           // the verdict as text

	Header       map[string]string // of the request
	Body         []byte            // of the request
	ResponseBody string            // the start of the response body, with invalid UTF-8 replaced
	Cut          bool              // the response body is longer
}

// maxShownBody is the maximum size of Exchange.ResponseBody in bytes.
const maxShownBody = 4 * 1024

// ErrNoType: no event type has that name.
var ErrNoType = errors.New("outbox: no such event type")

// errNoReceiver: the integration sends no events.
var errNoReceiver = errors.New("outbox: the integration sends no events")

// SendTest sends a test event of the type to the receiver of an integration, delivered like any other event
// and signed with the secret. It makes one attempt only. The event is logged as a test. If it cannot be
// logged, the exchange is still valid.
func (o *Outbox) SendTest(
	ctx context.Context, i *integration.Integration, secret, typ string,
) (Exchange, error) {
	if !i.Webhook.Sends() {
		return Exchange{}, errNoReceiver
	}
	now := o.Now()
	sid, text, err := session.NewTest(o.Random, o.Sealer, i.ID, i.Level, i.ChallengeAge, now)
	if err != nil {
		return Exchange{}, err
	}
	e, ok := webhook.TestEvent(webhook.Head{ID: webhook.NewID(o.Random), CreatedAt: now,
		PublisherID: i.PublisherID, IntegrationID: i.ID, SessionID: text}, typ, i.Level, i.ChallengeAge)
	if !ok {
		return Exchange{}, ErrNoType
	}
	body := e.Body()
	headers := webhook.Headers(e.ID, now, body, secret, o.stagedSecret(i))
	x, err := o.Exchange(ctx, i.Webhook.URL, headers, body)
	if err != nil {
		return Exchange{}, err
	}
	said := state{is: StateDelivered, at: o.Now(), tried: withAttempt("", x.Attempt), made: 1}
	if x.Verdict != delivery.Delivered {
		said.is, said.reason = StateDead, onlyTest
	}
	if err := o.logTest(ctx, sid.Partition.Name(), i.ID, body, said); err != nil {
		o.Log.Warn("test delivery not logged", "event", e.ID, "error", err.Error())
	}
	return x, nil
}

// logTest writes the entry of a test event. Test events are not listed as dead, because they cannot be
// resent.
func (o *Outbox) logTest(
	ctx context.Context, p kv.Partition, integration string, body []byte, now state,
) error {
	event, err := strictjson.Read(body)
	if err != nil {
		return err
	}
	s := subjectOf(integration, event)
	if s == nil {
		return errNotAnEntry
	}
	id, err := kv.NewTxID(o.Random)
	if err != nil {
		return err
	}
	key := kv.Key{Partition: p, Name: logPrefix + s.integration + "/" + s.place}
	value, err := o.entry(key, s, now)
	if err != nil {
		return err
	}
	return kv.CommitSurely(ctx, o.KV, kv.Tx{ID: id, Partition: p,
		Puts: []kv.Put{{Name: key.Name, Value: value, Expires: now.at.Add(logLife)},
			{Name: testsInLog + s.integration + "/" + s.place, Value: value, Expires: now.at.Add(logLife)}}})
}

// Exchange makes one request in the way of every event and returns its result. A missing response is a
// result, not an error. The end of the context is an error.
func (o *Outbox) Exchange(
	ctx context.Context, url string, header map[string]string, body []byte,
) (Exchange, error) {
	began := o.Now()
	resp, err := o.fetch(ctx, url, header, body)
	if ctx.Err() != nil {
		return Exchange{}, fmt.Errorf("outbox: %w", ctx.Err())
	}
	x := Exchange{Attempt: attempt(began, o.Now(), resp.Status, err),
		Verdict: delivery.Classify(resp.Status, err), Header: header, Body: body}
	x.Words = x.words()
	if err == nil {
		x.ResponseBody, x.Cut = beginning(resp.Body)
	}
	return x, nil
}

// beginning returns the start of a response body for an Exchange.
func beginning(body []byte) (text string, cut bool) {
	if len(body) > maxShownBody {
		body, cut = body[:maxShownBody], true
		for n := 1; n < utf8.UTFMax; n++ { // leave out an incomplete character
			if r := body[len(body)-n:]; utf8.RuneStart(r[0]) {
				if !utf8.FullRune(r) {
					body = body[:len(body)-n]
				}
				break
			}
		}
	}
	return strings.ToValidUTF8(string(body), "\uFFFD"), cut
}

// words describes the result of an attempt: its effect on an event, and the fix.
func (a Attempt) words() string {
	if a.Cause != "" {
		text := "There was no response"
		if cause := host.FetchCause(a.Cause); cause != "" {
			text += ": " + cause
		}
		if a.Fault != "" {
			text += " (" + a.Fault + ")"
		}
		return text + ". An event would be retried."
	}
	text := fmt.Sprintf("The receiver returned %d. ", a.Status)
	switch {
	case delivery.Classify(a.Status, nil) == delivery.Delivered:
		return text + "With this response, an event is delivered."
	case a.Status == 401:
		return text + "It did not accept the signature: check its secret and its clock. " +
			"An event would fail without a retry."
	case delivery.Classify(a.Status, nil) == delivery.Failed:
		return text + "This rejects the event, which would fail without a retry. Return 2xx to accept it."
	case a.Status >= 300 && a.Status < 400:
		return text + "Redirects are not followed: set the URL to the target of the redirect. " +
			"An event would be retried."
	}
	return text + "An event would be retried."
}
