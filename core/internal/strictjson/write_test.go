package strictjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// FuzzWriter compares the writer with encoding/json.
func FuzzWriter(f *testing.F) {
	for c := range 256 { // each byte alone, and at each of the eight places that plain checks together
		f.Add(string(rune(c)), []byte{byte(c)}, int64(c), c%2 == 0)
		f.Add(strings.Repeat("x", c%19)+string([]byte{byte(c)})+"y", []byte(nil), -int64(c), false)
	}
	f.Add("\u2028\u2029\ufffd😀", []byte{}, int64(0), true)
	f.Add("svc_sess_AQ-_ ~\x7f", []byte("ab"), int64(-1<<63), true)
	f.Fuzz(func(t *testing.T, text string, data []byte, number int64, yes bool) {
		want, err := json.Marshal(struct {
			Text     string  `json:"text"`
			Given    *string `json:"given"`
			Absent   *string `json:"absent"`
			Data     []byte  `json:"some_data"`
			Number   int64   `json:"number"`
			Yes      bool    `json:"yes"`
			Nothing  *int    `json:"nothing"`
			LastText string  `json:"last_text"`
		}{text, &text, nil, data, number, yes, nil, text + "x" + text})
		if err != nil {
			t.Fatal(err)
		}
		for _, room := range []int{0, 1024} {
			w := NewWriter(room)
			w.Text("text", text)
			w.Optional("given", &text)
			w.Optional("absent", nil)
			w.Base64("some_data", data)
			w.Number("number", number)
			w.Bool("yes", yes)
			w.Null("nothing")
			w.Text("last_text", text+"x"+text)
			if got := w.End(); !bytes.Equal(got, want) {
				t.Fatalf("%s, encoding/json writes %s", got, want)
			}
		}
	})
}

func TestWriter_Empty(t *testing.T) {
	if w := (Writer{}); string(w.End()) != "{}" {
		t.Error("the zero Writer does not write {}")
	}
}
