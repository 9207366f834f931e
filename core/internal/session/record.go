package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/verge-id/verge/core/internal/strictjson"
	"github.com/verge-id/verge/core/internal/verdict"
)

// recordJSON is the record in the KV. Its names are short, since each session has a record for 30 days.
type recordJSON struct {
	State    State  `json:"s"`
	Attempts int    `json:"n,omitempty"`
	Code     string `json:"c,omitempty"`
	At       int64  `json:"t,omitempty"` // milliseconds since 1970
	Browser  string `json:"b,omitempty"`
	Asked    int64  `json:"q,omitempty"` // milliseconds since 1970
	Box      string `json:"x,omitempty"`
	Hand     string `json:"h,omitempty"`
	Forms    string `json:"f,omitempty"`
	Pictures int    `json:"i,omitempty"`

	// An earlier release wrote the verdict without its basis, as "p". That field is ignored.
	Proven verdict.Basis `json:"v,omitzero"`

	Steps json.RawMessage `json:"l,omitempty"`
	Age   int             `json:"g,omitempty"`
}

// Marshal returns the stored form of the record; ParseRecord parses it.
func (r Record) Marshal() []byte {
	j := recordJSON{
		State:    r.State,
		Attempts: r.Attempts,
		Code:     r.FailureCode,
		Browser:  r.Browser,
		Box:      r.Response,
		Hand:     r.HandOff,
		Forms:    r.Forms,
		Pictures: r.Pictures,
		Proven:   r.Proven,
		Steps:    json.RawMessage(r.Steps),
		Age:      r.Age,
	}
	if !r.At.IsZero() {
		j.At = r.At.UnixMilli()
	}
	if !r.AskedUntil.IsZero() {
		j.Asked = r.AskedUntil.UnixMilli()
	}
	b, err := json.Marshal(j)
	if err != nil {
		panic(err) // strings and integers always marshal
	}
	return b
}

// ParseRecord parses a stored record.
func ParseRecord(b []byte) (Record, error) {
	o, err := strictjson.Read(b)
	if err != nil {
		return Record{}, fmt.Errorf("session: damaged record: %w", err)
	}
	state, _, ok1 := o.String("s")
	attempts, _, ok2 := o.Integer("n")
	code, _, ok3 := o.String("c")
	at, _, ok4 := o.Integer("t")
	browser, _, ok5 := o.String("b")
	asked, _, ok6 := o.Integer("q")
	box, _, ok7 := o.String("x")
	hand, _, ok8 := o.String("h")
	forms, _, ok9 := o.String("f")
	pictures, _, ok10 := o.Integer("i")
	proven, ok11 := readProven(o)
	steps, ok12 := readSteps(o)
	age, _, ok13 := o.Integer("g")
	if !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6 && ok7 && ok8 && ok9 && ok10 && ok11 && ok12 && ok13) {
		return Record{}, errors.New("session: damaged record: a member of another kind")
	}
	r := Record{
		State:       State(state),
		Attempts:    int(attempts),
		FailureCode: code,
		Browser:     browser,
		Response:    box,
		HandOff:     hand,
		Forms:       forms,
		Pictures:    int(pictures),
		Proven:      proven,
		Steps:       stepsOf(steps...),
		Age:         int(age),
	}
	switch r.State {
	case Started:
		if asked != 0 {
			r.AskedUntil = time.UnixMilli(asked).UTC()
		}
	case Completed, Failed, Expired:
		r.At = time.UnixMilli(at).UTC()
	default:
		return Record{}, fmt.Errorf("session: damaged record: state %q", r.State)
	}
	return r, nil
}

// readProven reads the basis of the verdict, if the record has one.
func readProven(record strictjson.Object) (b verdict.Basis, ok bool) {
	v := record.Value("v")
	return b, !v.Present() || json.Unmarshal([]byte(v.JSON()), &b) == nil
}
