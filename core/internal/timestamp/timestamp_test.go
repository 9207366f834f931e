package timestamp

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"
)

// Contract 2: RFC 3339 in UTC, with milliseconds, cut off and not rounded.
func TestText(t *testing.T) {
	check := func(at time.Time) {
		if got, want := Text(at), at.UTC().Format(layout); got != want {
			t.Errorf("%v is %s, want %s", at, got, want)
		}
	}
	for _, at := range []time.Time{{}, time.Unix(0, 0), time.Unix(1, 999_999_999),
		time.Unix(1<<31, 5_000_000), time.UnixMilli(1<<48 - 1),
		time.Date(2026, 2, 28, 23, 59, 59, 999_499_999, time.FixedZone("", -7*3600))} {
		check(at)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		check(time.UnixMicro(rng.Int64N(1 << 58)))
	}
}

type inner struct {
	ID      string     `json:"id"`
	Due     time.Time  `json:"due"`
	Created *time.Time `json:"created,omitempty"`
	hidden  time.Time
}

type outer struct {
	inner
	Inner
	Due    *time.Time                 `json:"due,omitempty"` // hides the inner one
	Text   string                     `json:"text,omitempty"`
	List   []inner                    `json:"list"`
	Few    []string                   `json:"few,omitempty"`
	Array  [2]time.Time               `json:"array"`
	Map    map[string]any             `json:"map"`
	Times  map[string]time.Time       `json:"times,omitempty"`
	Raw    map[string]json.RawMessage `json:"raw"`
	Bytes  []byte                     `json:"bytes"`
	Any    any                        `json:"any"`
	Yes    bool                       `json:"yes"`
	Number float64                    `json:"number,omitempty"`
	Secret string                     `json:"-"`
	Bare   int
	Struct struct{} `json:"struct,omitempty"`
}

// Inner is embedded and exported.
type Inner struct {
	Role string `json:"role"`
}

// Whole milliseconds with three digits are all that differs from json.Marshal.
func TestJSON(t *testing.T) {
	at := time.Date(2026, 11, 20, 22, 10, 0, 123_000_000, time.UTC)
	full := outer{inner: inner{ID: "<a>&\u2028", Due: at, Created: &at, hidden: at}, Inner: Inner{"admin"},
		Due: &at, Text: "2026-11-20T22:10:00Z", List: []inner{{ID: "b", Due: at}}, Few: []string{"x", ""},
		Array: [2]time.Time{at, at}, Map: map[string]any{"z": at, "a": []any{1, nil, &at, map[string]int{}}},
		Times: map[string]time.Time{"t": at}, Raw: map[string]json.RawMessage{"r": json.RawMessage(`{"at":1}`)},
		Bytes: []byte("bytes"), Any: &inner{ID: "c", Due: at}, Yes: true, Number: 1.5, Secret: "s", Bare: 7}
	for _, v := range []any{nil, 1, "text", at, &at, full, &full, []outer{full},
		map[string]any{"all": []inner{}},
		outer{Array: full.Array, inner: inner{Due: at}, Due: &at}, struct{}{}, []string(nil),
		struct{ Status string }{"done"}, (*inner)(nil)} {
		want, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		got, err := JSON(v)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%v\n%s\nwant\n%s", err, got, want)
		}
	}
	other := time.Date(2026, 11, 21, 0, 10, 0, 999_999, time.FixedZone("", 2*3600))
	got, err := JSON(inner{Due: other, Created: &other})
	want := `{"id":"","due":"2026-11-20T22:10:00.000Z","created":"2026-11-20T22:10:00.000Z"}`
	if err != nil || string(got) != want {
		t.Errorf("contract 2: %s, %v, want %s", got, err, want)
	}
	if _, err := JSON(map[string]any{"f": []any{func() {}}}); err == nil {
		t.Error("a function became JSON")
	}
}
