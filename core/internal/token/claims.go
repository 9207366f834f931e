package token

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/strictjson"
	"github.com/verge-id/verge/core/internal/verdict"
)

// Text prefixes of the three kinds.
const (
	FlowPrefix   = "svc_ft_"
	StepPrefix   = "svc_pt_"
	ResultPrefix = "svc_rt_"
	GrantPrefix  = "svc_gt_" // of codes and access tokens of the OpenID provider
)

// FlowClaims is the content of redirect_url: ids, the way back, and no data that is available elsewhere, so
// that the URL stays short. Texts that a publisher chooses are []byte and so base64 in JSON, because JSON's
// own escapes could make them six times longer.
type FlowClaims struct {
	Session  string `json:"sid"`
	Callback []byte `json:"cb"`
	State    []byte `json:"st,omitempty"`
	HasState bool   `json:"hs,omitempty"` // whether State was given, even if it is empty
	User     []byte `json:"us,omitempty"`
	HasUser  bool   `json:"hu,omitempty"`
	Language string `json:"lg,omitempty"`
	Expires  Time   `json:"exp"`

	// OpenID has the PKCE challenge (S256) and the nonce of an OpenID authorization request (contract 50),
	// separated by a dot. Callback is then its redirect URI. Empty: the session was started by the API.
	OpenID []byte `json:"oi,omitempty"`

	// Untimed reports that the session has no timer, for usage (contract 44).
	Untimed bool `json:"nt,omitempty"`
}

// marshal returns the same bytes as encoding/json, but faster: every start needs it.
func (c FlowClaims) marshal() []byte {
	w := strictjson.NewWriter(96 + len(c.Session) + (len(c.Callback)+len(c.State)+len(c.User))/3*4 + paddedTo)
	w.Text("sid", c.Session)
	w.Base64("cb", c.Callback)
	if len(c.State) > 0 {
		w.Base64("st", c.State)
	}
	if c.HasState {
		w.Bool("hs", true)
	}
	if len(c.User) > 0 {
		w.Base64("us", c.User)
	}
	if c.HasUser {
		w.Bool("hu", true)
	}
	if c.Language != "" {
		w.Text("lg", c.Language)
	}
	w.Number("exp", int64(c.Expires))
	if len(c.OpenID) > 0 {
		w.Base64("oi", c.OpenID)
	}
	if c.Untimed {
		w.Bool("nt", true)
	}
	return w.End()
}

// SetState and SetUser store the publisher's values. nil means absent, which differs from empty. StateText
// and UserText return them.
func (c *FlowClaims) SetState(s *string) { c.State, c.HasState = given(s) }
func (c *FlowClaims) SetUser(s *string)  { c.User, c.HasUser = given(s) }

// StateText returns the state, or nil if it is absent.
func (c *FlowClaims) StateText() *string { return optional(c.State, c.HasState) }

// UserText returns the external user id, or nil if it is absent.
func (c *FlowClaims) UserText() *string { return optional(c.User, c.HasUser) }

func given(s *string) ([]byte, bool) {
	if s == nil {
		return nil, false
	}
	return []byte(*s), true
}

func optional(b []byte, has bool) *string {
	if !has {
		return nil
	}
	s := string(b)
	return &s
}

// StepClaims are a step of a method: the data that the method receives with the user's next step. A browser
// carries them in a form or, while it is at another site or waits, in a cookie.
type StepClaims struct {
	Session string `json:"sid"`
	Attempt int    `json:"at,omitempty"` // of the step: number of failed attempts before it
	State   []byte `json:"st"`
	Issued  Time   `json:"iat"`

	// Method is the method's name. "" in tokens of an earlier release: the integration's first.
	Method string `json:"mt,omitempty"`
	// Handle is random text that only the browser with this token has. "" for a sandbox.
	Handle string `json:"hd,omitempty"`
	// Leave is the address of another site to which the browser goes, in a cookie. "": it stays.
	Leave string `json:"go,omitempty"`

	Pending // the response for which the browser waits, in a cookie. Zero: it does not wait
}

// Waits reports whether the step belongs in a cookie: its browser is at another site, or waits for a pending
// response.
func (c StepClaims) Waits() bool { return c.Leave != "" || c.Pending != Pending{} }

// Pending names a pending response: a response to a step that does not arrive through the browser that
// began it. That browser collects the response. At most one field is set.
type Pending struct {
	// Response is the handle of a response that another program, such as a wallet, posts to its response_uri
	// (contract 34).
	Response string `json:"bx,omitempty"`
	// HandOff is the handle of a cross-device hand-off: a phone does the step (contract 40).
	HandOff string `json:"hn,omitempty"`
}

// Handle returns the handle, or "" for the zero Pending.
func (p Pending) Handle() string { return p.Response + p.HandOff }

// Like returns the pending response of p's kind with that handle.
func (p Pending) Like(handle string) Pending {
	if p.HandOff != "" {
		return Pending{HandOff: handle}
	}
	return Pending{Response: handle}
}

func (p Pending) purpose() string {
	if p.HandOff != "" {
		return handOff
	}
	return response
}

// PendingClaims are the KV item of a pending response. It belongs to this session, method, attempt and
// handle.
type PendingClaims struct {
	Pending
	Session string `json:"sid"`
	Method  string `json:"mt"`
	Attempt int    `json:"at,omitempty"`

	State []byte `json:"st,omitzero"` // of the method, for a posted response

	// Of a hand-off: the origin of the publisher's callback, the language from start, and a number that
	// both screens show.
	Site     string `json:"or,omitempty"`
	Language string `json:"lg,omitempty"`
	Number   string `json:"no,omitempty"`

	Issued Time `json:"iat"` // when this was written

	// Posted reports that the response has been posted.
	Posted bool   `json:"an,omitempty"`
	Kept   []byte `json:"kp,omitempty"` // the part of the response that the method needs
	Same   bool   `json:"sd,omitempty"` // the response came from the browser's own device
	Code   string `json:"rc,omitempty"` // the response_code for that device
	Digest []byte `json:"dg,omitempty"` // of the whole response, to recognise it if it is repeated

	// Device names the one device that does the step of a hand-off (session.Proof). "": none has begun.
	Device string `json:"dv,omitempty"`

	// Done reports that the step of a hand-off has ended.
	Done    bool   `json:"dn,omitempty"`
	Verdict int    `json:"vd,omitempty"` // a method.Verdict
	Reason  string `json:"wy,omitempty"` // a method.Reason

	// Basis is the basis of the verdict. Zero in items of an earlier release.
	Basis verdict.Basis `json:"by,omitzero"`

	// For the log, as in method.Decision.
	Cause   string `json:"cs,omitempty"`
	Setting string `json:"sg,omitempty"`
	Detail  string `json:"dt,omitempty"`
}

// Arrived reports whether the response has arrived.
func (c PendingClaims) Arrived() bool { return c.Posted || c.Done }

// ResultClaims name a completed session. There is no separate token id, because the session is the
// identity: all result tokens of a session count as one when one of them is used (contract 17).
type ResultClaims struct {
	Session   string `json:"sid"`
	Completed Time   `json:"iat"`

	// Outcome is the transaction that wrote the completed outcome. The token is valid only while that
	// outcome is in the store. "" in tokens of an earlier release.
	Outcome string `json:"tx,omitempty"`
}

// ResultLife is how long after completion a result token is valid.
const ResultLife = 5 * time.Minute

// Expires returns the time from which the token is no longer valid.
func (c ResultClaims) Expires() time.Time { return c.Completed.Time().Add(ResultLife) }

// Grant is an authorization code or an access token of the OpenID provider. A code is a result token for a
// client: it is redeemed as one (contract 17), and belongs to the redirect URI and the challenge of its
// request.
type Grant struct {
	ResultClaims
	Issued Time `json:"at"`
	Age    int  `json:"ag"` // the age that the verdict has proven

	// Only for a code: the hash of the redirect URI, and FlowClaims.OpenID.
	Redirect []byte `json:"ru,omitempty"`
	OpenID   []byte `json:"oi,omitempty"`
}

// SealFlow returns the flow token of c.
func SealFlow(s host.Sealer, c FlowClaims) (string, error) {
	return sealText(s, Flow, FlowPrefix, padded(c.marshal()))
}

// paddedTo is the step in which flow tokens grow. Logs and referrers show the length of a link. Without
// padding, that length would reveal the total length of the publisher's values, and so distinguish users.
const paddedTo = 64

// padded fills a JSON object up to the next step with spaces before its end, which readers ignore.
func padded(object []byte) []byte {
	object = object[:len(object)-1]
	for (len(object)+1)%paddedTo != 0 {
		object = append(object, ' ')
	}
	return append(object, '}')
}

// OpenFlow returns the claims of an authentic flow token, expired or not, and the time until which its key
// was in use. The caller compares that with the session's creation (host.ValidAt). The error is one of
// Sealer.Open's.
func OpenFlow(s host.Sealer, text string) (claims FlowClaims, until time.Time, err error) {
	return open[FlowClaims](s, Flow, FlowPrefix, text)
}

// SealStep returns the step token of c.
func SealStep(s host.Sealer, c StepClaims) (string, error) {
	return seal(s, Step, StepPrefix, c)
}

// OpenStep returns the claims of an authentic step token. The error is one of Sealer.Open's.
func OpenStep(s host.Sealer, text string) (StepClaims, error) {
	c, until, err := open[StepClaims](s, Step, StepPrefix, text)
	if err == nil && !host.ValidAt(c.Issued.Time(), until) {
		return StepClaims{}, host.ErrNotAuthentic
	}
	return c, err
}

// SealPending returns the KV value of c.
func SealPending(s host.Sealer, c PendingClaims) ([]byte, error) { return sealBytes(s, c.purpose(), c) }

// OpenPending returns the claims of the authentic KV value of p. The error is one of Sealer.Open's. The key
// of the value must have been in use when the value was written.
func OpenPending(s host.Sealer, p Pending, value []byte) (c PendingClaims, err error) {
	b, until, err := s.Open(p.purpose(), value)
	if err != nil {
		return c, err
	}
	if json.Unmarshal(b, &c) != nil || c.Pending != p || !host.ValidAt(c.Issued.Time(), until) {
		return PendingClaims{}, host.ErrNotAuthentic
	}
	return c, nil
}

// SealResult returns the result token of c.
func SealResult(s host.Sealer, c ResultClaims) (string, error) {
	return seal(s, Result, ResultPrefix, c)
}

// OpenResult returns the claims of an authentic result token, expired or not. The error is one of
// Sealer.Open's.
func OpenResult(s host.Sealer, text string) (ResultClaims, error) {
	b, until, err := openText(s, Result, ResultPrefix, text)
	if err != nil {
		return ResultClaims{}, err
	}
	o, err := strictjson.Read(b)
	session, _, isText := o.String("sid")
	completed, _, isTime := o.Integer("iat")
	outcome, _, isTx := o.String("tx")
	if err != nil || !isText || !isTime || !isTx || !host.ValidAt(Time(completed).Time(), until) {
		return ResultClaims{}, host.ErrNotAuthentic
	}
	return ResultClaims{session, Time(completed), outcome}, nil
}

// SealGrant returns the text of a grant. purpose is Code or Access.
func SealGrant(s host.Sealer, purpose string, g *Grant) (string, error) {
	return seal(s, purpose, GrantPrefix, g)
}

// OpenGrant returns an authentic grant, expired or not. The error is one of Sealer.Open's.
func OpenGrant(s host.Sealer, purpose, text string) (Grant, error) {
	g, until, err := open[Grant](s, purpose, GrantPrefix, text)
	if err == nil && !host.ValidAt(g.Issued.Time(), until) {
		return Grant{}, host.ErrNotAuthentic
	}
	return g, err
}

func seal(s host.Sealer, purpose, prefix string, claims any) (string, error) {
	sealed, err := sealBytes(s, purpose, claims)
	if err != nil {
		return "", err
	}
	return EncodeText(prefix, sealed), nil
}

func sealBytes(s host.Sealer, purpose string, claims any) ([]byte, error) {
	b, err := json.Marshal(claims)
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	return s.Seal(purpose, b)
}

func sealText(s host.Sealer, purpose, prefix string, claims []byte) (string, error) {
	sealed, err := s.Seal(purpose, claims)
	if err != nil {
		return "", err
	}
	return EncodeText(prefix, sealed), nil
}

func open[C any](s host.Sealer, purpose, prefix, text string) (c C, until time.Time, err error) {
	b, until, err := openText(s, purpose, prefix, text)
	if err != nil {
		return c, until, err
	}
	if json.Unmarshal(b, &c) != nil {
		return *new(C), until, host.ErrNotAuthentic
	}
	return c, until, nil
}

func openText(s host.Sealer, purpose, prefix, text string) (claims []byte, until time.Time, err error) {
	sealed, ok := DecodeText(prefix, text)
	if !ok {
		return nil, until, host.ErrNotAuthentic
	}
	return s.Open(purpose, sealed)
}
