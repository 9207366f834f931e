package token

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/verdict"
	"github.com/verge-id/verge/core/web"
)

// Text prefixes of the three kinds.
const (
	FlowPrefix     = "svc_ft_"
	ProviderPrefix = "svc_pt_"
	ResultPrefix   = "svc_rt_"
)

// FlowClaims is what redirect_url carries: ids, the way back, and nothing that can be looked up
// elsewhere, so that the URL stays short. Texts that a publisher chooses are []byte and so base64 in
// JSON, because JSON's own escapes could make them six times longer.
type FlowClaims struct {
	Session  string `json:"sid"`
	Callback []byte `json:"cb"`
	State    []byte `json:"st,omitempty"`
	HasState bool   `json:"hs,omitempty"` // whether State was given, even if it is empty
	User     []byte `json:"us,omitempty"`
	HasUser  bool   `json:"hu,omitempty"`
	Language string `json:"lg,omitempty"`
	Expires  Time   `json:"exp"`
}

// marshal writes what encoding/json would write, but faster: every start needs it.
func (c FlowClaims) marshal() []byte {
	w := web.NewObjectWriter(96 + len(c.Session) + (len(c.Callback)+len(c.State)+len(c.User))/3*4 + paddedTo)
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
	return w.End()
}

// SetState and SetUser keep what the publisher gave. nil means not given, which differs from given and
// empty. StateText and UserText return it.
func (c *FlowClaims) SetState(s *string) { c.State, c.HasState = given(s) }
func (c *FlowClaims) SetUser(s *string)  { c.User, c.HasUser = given(s) }

// StateText returns the state that was given, or nil if none was.
func (c *FlowClaims) StateText() *string { return optional(c.State, c.HasState) }

// UserText returns the external user id that was given, or nil if none was.
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

// ProviderClaims is a step of a method: what the method gets back with the user's next step. A browser
// carries it in a form or, while it is at another site, in a cookie.
type ProviderClaims struct {
	Session string `json:"sid"`
	Attempt int    `json:"at,omitempty"` // of the step: how many attempts failed before it
	State   []byte `json:"st"`
	Issued  Time   `json:"iat"`

	// Method is the method's name. "" in tokens of an earlier release: the integration's first.
	Method string `json:"mt,omitempty"`
	// Handle is random text that only the browser with this token knows. "" where nothing real is proven.
	Handle string `json:"hd,omitempty"`
	// Leave is the address of another site for which the browser leaves, in a cookie. "": it stays.
	Leave string `json:"go,omitempty"`
	// Box is the handle of a box for whose answer the browser waits, in a cookie. "": it does not.
	Box string `json:"bx,omitempty"`
	// Hand is the handle of a hand-off to a phone for which the browser waits, in a cookie. "": it does not.
	Hand string `json:"hn,omitempty"`
}

// BoxClaims is what the store holds of a box: where somebody answers who is not the browser (contract 34). It
// belongs to this session, method, attempt and handle.
type BoxClaims struct {
	Handle  string `json:"bx"`
	Session string `json:"sid"`
	Method  string `json:"mt"`
	Attempt int    `json:"at,omitempty"`
	State   []byte `json:"st"`
	Issued  Time   `json:"iat"` // when this was written

	// Answered says that the box is closed. The others say by what.
	Answered bool   `json:"an,omitempty"`
	Kept     []byte `json:"kp,omitempty"` // what the method keeps of the answer
	Same     bool   `json:"sd,omitempty"` // it came from the browser's own device
	Code     string `json:"rc,omitempty"` // the response_code for that device
	Digest   []byte `json:"dg,omitempty"` // of the whole answer, to know it again if it is repeated

	// Basis is the basis of the verdict. Zero in boxes of an earlier release.
	Basis verdict.Basis `json:"by,omitzero"`
}

// HandClaims is what the store holds of a hand-off: a step that another device does for the browser that
// began (contract 40). It belongs to this session, method, attempt and handle.
type HandClaims struct {
	Handle   string `json:"hn"`
	Session  string `json:"sid"`
	Method   string `json:"mt"`
	Attempt  int    `json:"at,omitempty"`
	Site     string `json:"or"`           // the origin of the publisher's callback
	Language string `json:"lg,omitempty"` // as given at start
	Number   string `json:"no"`           // both screens show it
	Issued   Time   `json:"iat"`          // when this was written

	// Device names the one device that does the step (session.Proof). "": none has begun.
	Device string `json:"dv,omitempty"`

	// Done says that the step has ended. The others say how.
	Done    bool   `json:"dn,omitempty"`
	Verdict int    `json:"vd,omitempty"` // a method.Verdict
	Reason  string `json:"wy,omitempty"` // a method.Reason

	// Basis is the basis of the verdict. Zero in those of an earlier release.
	Basis verdict.Basis `json:"by,omitzero"`

	// For the log, as method.Decision has them.
	Cause   string `json:"cs,omitempty"`
	Setting string `json:"sg,omitempty"`
	Detail  string `json:"dt,omitempty"`
}

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

// Expires is the instant from which the token is no longer valid.
func (c ResultClaims) Expires() time.Time { return c.Completed.Time().Add(ResultLife) }

// SealFlow returns the flow token of c.
func SealFlow(s host.Sealer, c FlowClaims) (string, error) {
	return sealText(s, Flow, FlowPrefix, padded(c.marshal()))
}

// paddedTo is the step in which flow tokens grow. Logs and referrers show the length of a link. Without
// padding that length would reveal the total length of what the publisher gave, and so tell users
// apart.
const paddedTo = 64

// padded fills a JSON object up to the next step with spaces before its end, which no reader minds.
func padded(object []byte) []byte {
	object = object[:len(object)-1]
	for (len(object)+1)%paddedTo != 0 {
		object = append(object, ' ')
	}
	return append(object, '}')
}

// OpenFlow returns the claims of an authentic flow token, expired or not, and the time until which its
// key was in use. The caller compares that with the session's creation (host.ValidAt). The error is one
// of Sealer.Open's.
func OpenFlow(s host.Sealer, text string) (claims FlowClaims, until time.Time, err error) {
	return open[FlowClaims](s, Flow, FlowPrefix, text)
}

// SealProvider returns the provider token of c.
func SealProvider(s host.Sealer, c ProviderClaims) (string, error) {
	return seal(s, Provider, ProviderPrefix, c)
}

// OpenProvider returns the claims of an authentic provider token. The error is one of Sealer.Open's.
func OpenProvider(s host.Sealer, text string) (ProviderClaims, error) {
	c, until, err := open[ProviderClaims](s, Provider, ProviderPrefix, text)
	if err == nil && !host.ValidAt(c.Issued.Time(), until) {
		return ProviderClaims{}, host.ErrNotAuthentic
	}
	return c, err
}

// SealBox returns the store's value of c.
func SealBox(s host.Sealer, c BoxClaims) ([]byte, error) { return sealBytes(s, Box, c) }

// OpenBox returns the claims of an authentic value of the store. The error is one of Sealer.Open's.
func OpenBox(s host.Sealer, value []byte) (BoxClaims, error) {
	return openBytes[BoxClaims](s, Box, value)
}

// SealHand returns the store's value of c.
func SealHand(s host.Sealer, c HandClaims) ([]byte, error) { return sealBytes(s, Hand, c) }

// OpenHand returns the claims of an authentic value of the store. The error is one of Sealer.Open's.
func OpenHand(s host.Sealer, value []byte) (HandClaims, error) {
	return openBytes[HandClaims](s, Hand, value)
}

// SealResult returns the result token of c.
func SealResult(s host.Sealer, c ResultClaims) (string, error) {
	return seal(s, Result, ResultPrefix, c)
}

// OpenResult returns the claims of an authentic result token, expired or not.
// The error is one of Sealer.Open's.
func OpenResult(s host.Sealer, text string) (ResultClaims, error) {
	b, until, err := openText(s, Result, ResultPrefix, text)
	if err != nil {
		return ResultClaims{}, err
	}
	o, err := web.ReadObject(b)
	session, _, isText := o.String("sid")
	completed, _, isTime := o.Integer("iat")
	outcome, _, isTx := o.String("tx")
	if err != nil || !isText || !isTime || !isTx || !host.ValidAt(Time(completed).Time(), until) {
		return ResultClaims{}, host.ErrNotAuthentic
	}
	return ResultClaims{session, Time(completed), outcome}, nil
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

// openBytes opens a value of the store. Its key must have been in use when the value was written.
func openBytes[C interface{ issued() time.Time }](
	s host.Sealer, purpose string, value []byte,
) (c C, err error) {
	b, until, err := s.Open(purpose, value)
	if err != nil {
		return c, err
	}
	if json.Unmarshal(b, &c) != nil || !host.ValidAt(c.issued(), until) {
		return *new(C), host.ErrNotAuthentic
	}
	return c, nil
}

func (c BoxClaims) issued() time.Time  { return c.Issued.Time() }
func (c HandClaims) issued() time.Time { return c.Issued.Time() }

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
