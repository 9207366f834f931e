package api

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
)

const maxIdempotencyKey = 255

// idempotencyKey returns the header's value, "" if it is absent, and adds a field error if it is invalid.
// With a public key every value is invalid (contract 11): all visitors share that key, so one visitor could
// get the flow token of another.
func (c *call) idempotencyKey(f *fields, public bool) string {
	values := c.Header["Idempotency-Key"]
	if len(values) == 0 {
		return ""
	}
	if public {
		f.fail("Idempotency-Key", detailConflict,
			"Must be omitted with a public key, which all visitors share.")
		return ""
	}
	if len(values) != 1 || !printable(values[0], maxIdempotencyKey) {
		f.fail("Idempotency-Key", detailFormat, "Must be 1 to 255 printable ASCII characters, once.")
		return ""
	}
	return values[0]
}

// replay stores the response of a start for a repetition of the same request. It is in the partition of the
// session, so that one commit creates both the session and its response.
type replay struct {
	*call
	name      string
	partition session.Partition
	request   []byte // hash of the body
}

// kept is the stored record. It is sealed, since it contains a flow token.
type kept struct {
	Name    string          `json:"name"` // its name in the store: under another name it is rejected
	Request []byte          `json:"req"`
	Body    json.RawMessage `json:"body,omitempty"`
	Session string          `json:"failed,omitempty"` // session of a failed initiation
}

// once runs begin. If begin has already run with the same Idempotency-Key and credential, once returns the
// first response (contract 11).
func (c *call) once(idempotency string, begin func(*replay) (*web.Response, error)) (*web.Response, error) {
	// An Idempotency-Key can be guessed, such as the number of an order. Without the API key, which the store
	// does not have, a reader of the store cannot check a guess (contract 19).
	credential, _ := c.Header.Bearer()
	mac := hmac.New(sha256.New, []byte(credential))
	mac.Write([]byte(idempotency))
	slot := mac.Sum(nil)
	request := sha256.Sum256(c.Body)
	r := &replay{call: c, request: request[:], name: "r/" + base64.RawURLEncoding.EncodeToString(slot),
		partition: session.Partition(binary.BigEndian.Uint16(slot) % c.Partitions)}
	item, err := c.KV.Get(c.ctx, kv.Key{Partition: r.partition.Name(), Name: r.name})
	if err == nil {
		return r.repeat(item)
	}
	if !errors.Is(err, kv.ErrNotFound) {
		return nil, err
	}
	resp, err := begin(r)
	var conflict *kv.Conflict
	if errors.As(err, &conflict) {
		if item, ok := conflict.Item(r.name); ok {
			return r.repeat(item) // a concurrent repetition of the request was faster
		}
	}
	return resp, err
}

// keep returns the checks and puts that store the response. For a nil replay, it returns none.
func (r *replay) keep(resp *web.Response, rejection *web.Error) ([]kv.Check, []kv.Put, error) {
	if r == nil {
		return nil, nil, nil
	}
	k := kept{Name: r.name, Request: r.request}
	if rejection != nil {
		k.Session = rejection.Session
	} else {
		k.Body = resp.Body
	}
	claims, err := json.Marshal(k)
	if err != nil {
		return nil, nil, fmt.Errorf("api: %w", err)
	}
	sealed, err := r.Sealer.Seal(token.Replay, claims)
	if err != nil {
		return nil, nil, err
	}
	put := kv.Put{Name: r.name, Value: sealed, Expires: r.Now.Add(session.Life)}
	return []kv.Check{{Name: r.name}}, []kv.Put{put}, nil
}

// repeat returns the response stored in an item.
func (r *replay) repeat(item kv.Item) (*web.Response, error) {
	claims, until, err := r.Sealer.Open(token.Replay, item.Value)
	if errors.Is(err, host.ErrNotAuthentic) {
		return nil, fmt.Errorf("%w: stored response %s", token.ErrRecord, item.Key)
	}
	if err != nil {
		return nil, fmt.Errorf("api: stored response: %w", err)
	}
	var k kept
	// It was stored at most a session's life ago, so its key must have been in use then.
	if err := json.Unmarshal(claims, &k); err != nil || k.Name != r.name ||
		!host.ValidAt(r.Now.Add(-session.Life), until) {
		return nil, fmt.Errorf("%w: stored response %s: another one's", token.ErrRecord, item.Key)
	}
	if !bytes.Equal(k.Request, r.request) {
		return nil, &web.Error{Code: web.InvalidRequest,
			Message: "This Idempotency-Key was used with another body.",
			Details: []web.FieldError{{Field: "Idempotency-Key", Code: detailConflict,
				Message: "Was used with another body within the last 10 minutes."}}}
	}
	if k.Session != "" {
		return nil, initiationFailed(k.Session)
	}
	return web.JSONBytes(200, k.Body), nil
}

// partition chooses the partition of a new session's keys.
func (c *call) partition(r *replay) (session.Partition, error) {
	if r != nil {
		return r.partition, nil
	}
	if c.Partitions == 1 {
		return 0, nil
	}
	var b [2]byte
	if _, err := io.ReadFull(c.Random, b[:]); err != nil {
		return 0, fmt.Errorf("api: reading randomness: %w", err)
	}
	return session.Partition(binary.BigEndian.Uint16(b[:]) % c.Partitions), nil
}
