package session

import (
	"encoding/json"
	"fmt"
	"time"
)

// recordJSON is the record in the KV. Names are short because there is one
// per session, kept for 30 days.
type recordJSON struct {
	State    State  `json:"s"`
	Attempts int    `json:"n,omitempty"`
	Code     string `json:"c,omitempty"`
	At       int64  `json:"t,omitempty"` // milliseconds since 1970
}

// Marshal returns the record as it is kept; ParseRecord reads it back.
func (r Record) Marshal() []byte {
	j := recordJSON{State: r.State, Attempts: r.Attempts, Code: r.FailureCode}
	if !r.At.IsZero() {
		j.At = r.At.UnixMilli()
	}
	b, err := json.Marshal(j)
	if err != nil {
		panic(err) // strings and integers always marshal
	}
	return b
}

// ParseRecord reads a kept record.
func ParseRecord(b []byte) (Record, error) {
	var j recordJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return Record{}, fmt.Errorf("session: damaged record: %w", err)
	}
	r := Record{State: j.State, Attempts: j.Attempts, FailureCode: j.Code}
	switch j.State {
	case Started:
	case Completed, Failed, Expired:
		r.At = time.UnixMilli(j.At).UTC()
	default:
		return Record{}, fmt.Errorf("session: damaged record: state %q", j.State)
	}
	return r, nil
}
