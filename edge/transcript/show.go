package transcript

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/wasm/abi"
)

// Line returns the step's request in one line.
func (s *Step) Line() string {
	e, ok := entries[s.Entry]
	if !ok {
		return fmt.Sprintf("entry %d", s.Entry)
	}
	v, err := e.body(s.Body)
	if err != nil {
		return e.name + ": " + err.Error()
	}
	switch v := v.(type) {
	case *web.Request:
		target := v.Path
		if v.Query != "" {
			target += "?" + v.Query
		}
		if s.Entry == abi.Admin {
			target += " (admin)"
		}
		return oneLine(v.Method + " " + target)
	case jobUntil:
		return oneLine(fmt.Sprintf("%s %s of %s", e.name, v.Job.Task.ID, v.Job.Partition))
	case abi.ClaimJobs:
		return fmt.Sprintf("%s up to %d tasks of %s", e.name, v.N, v.Partition)
	}
	return e.name
}

// line returns an event in one line.
func (e Event) line() string {
	k := kinds[e.Kind]
	v, err := k.body(e.Body)
	if err != nil {
		return k.name + ": " + err.Error()
	}
	about := ""
	switch v := v.(type) {
	case string:
		about = v
	case kv.Key:
		about = v.String()
	case kv.Tx:
		about = string(v.Partition)
	case abi.Spend:
		about = string(v.Partition)
		for _, c := range v.Charges {
			about += " " + c.Name
		}
	case host.FetchRequest:
		about = v.Method + " " + v.URL
	case abi.VerifyRequest:
		about = v.Algorithm
	case abi.SignRequest:
		about = v.Algorithm + " with " + v.Key
	default:
		about = strings.Join(show(v), ", ")
	}
	if k.replies != nil {
		about += ": " + e.StatusName()
	}
	if answer, err := abi.Read.Fetched(e.Reply); e.Kind == abi.Fetch && err == nil {
		about += fmt.Sprint(", status ", answer.Status)
	}
	return oneLine(k.name + " " + about)
}

// oneLine shortens a text so that it fits on a line.
func oneLine(s string) string {
	const most = 160
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '·'
		}
		return r
	}, s)
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return s
}

// showEvent and showAnswer return an event or a response in several lines.
func showEvent(e Event) []string {
	return titled(e.KindName(), kinds[e.Kind].body, e.Body)
}

func showAnswer(s *Step) []string { return titled("answer", entries[s.Entry].result, s.Answer) }

func titled(title string, read reading, b []byte) []string {
	v, err := read(b)
	if err != nil {
		return []string{title, fmt.Sprintf("  %v: %x", err, b)}
	}
	lines := []string{title}
	for _, l := range show(v) {
		lines = append(lines, "  "+l)
	}
	return lines
}

// show formats a message with a line for each non-zero field.
func show(v any) []string {
	if v == nil {
		return nil
	}
	return appendValue(nil, "", reflect.ValueOf(v))
}

func appendValue(lines []string, path string, v reflect.Value) []string {
	label := path
	if path != "" {
		label += ": "
	}
	switch t := v.Interface().(type) {
	case time.Time:
		return append(lines, label+t.Format(time.RFC3339Nano))
	case []byte:
		return appendText(lines, label, t)
	case string:
		return appendText(lines, label, []byte(t))
	case abi.Status:
		return append(lines, label+statuses[t])
	case fmt.Stringer:
		return append(lines, label+t.String())
	}
	member := func(name string) string { return strings.TrimPrefix(path+"."+name, ".") }
	switch v.Kind() {
	case reflect.Pointer:
		return appendValue(lines, path, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); !f.IsZero() {
				lines = appendValue(lines, member(v.Type().Field(i).Name), f)
			}
		}
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			lines = appendValue(lines, member(k.String()), v.MapIndex(k))
		}
	case reflect.Slice:
		if v.Len() == 0 {
			return append(lines, label+"none")
		}
		for i := range v.Len() {
			lines = appendValue(lines, fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	default:
		lines = append(lines, fmt.Sprintf("%s%v", label, v.Interface()))
	}
	return lines
}

// appendText adds JSON field by field and text line by line. It adds other bytes as a Go string.
func appendText(lines []string, label string, b []byte) []string {
	var indented bytes.Buffer
	switch {
	case len(b) > 0 && (b[0] == '{' || b[0] == '[') && json.Indent(&indented, b, "", "  ") == nil:
		b = indented.Bytes()
	case !utf8.Valid(b) || bytes.ContainsFunc(b,
		func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' }):
		return append(lines, fmt.Sprintf("%s%q", label, b))
	}
	for n, line := range strings.Split(string(b), "\n") {
		if n == 0 {
			line = label + line
		}
		lines = append(lines, line)
	}
	return lines
}

// differing returns the different lines and a few around them. A line begins with a space if both have it,
// with a minus if only recorded has it, and with a plus if only replayed has it.
func differing(recorded, replayed []string) []string {
	const around = 2
	same := 0
	for same < min(len(recorded), len(replayed)) && recorded[same] == replayed[same] {
		same++
	}
	tail := 0
	for tail < min(len(recorded), len(replayed))-same &&
		recorded[len(recorded)-1-tail] == replayed[len(replayed)-1-tail] {
		tail++
	}
	out := []string{}
	if same > 0 {
		out = append(out, "  "+recorded[0]) // the title
	}
	if same > around+1 {
		out = append(out, "  …")
	}
	for _, l := range recorded[max(1, min(same, len(recorded))-around):max(1, same)] {
		out = append(out, "  "+l)
	}
	before, after := recorded[same:len(recorded)-tail], replayed[same:len(replayed)-tail]
	out = appendSide(out, "- ", before, after)
	out = appendSide(out, "+ ", after, before)
	if len(before)+len(after) == 0 {
		out = append(out, "- and + are the same in words, and differ in their bytes")
	}
	for _, l := range recorded[len(recorded)-min(tail, around):] {
		out = append(out, "  "+l)
	}
	if tail > around {
		out = append(out, "  …")
	}
	return out
}

// appendSide adds the lines of the recording or the replay. others are the lines of the opposite side.
func appendSide(out []string, sign string, lines, others []string) []string {
	const most = 40
	for n, l := range lines {
		if n == most {
			return append(out, fmt.Sprintf("%s… %d more lines", sign, len(lines)-most))
		}
		if n < len(others) {
			l = excerpt(l, others[n])
		} else {
			l = excerpt(l, "")
		}
		out = append(out, sign+l)
	}
	return out
}

// excerpt shortens a long line, such as a token or a page, to the part around its first difference from
// another line. It keeps the label of the line.
func excerpt(line, other string) string {
	const before, most = 40, 160
	if len(line) <= most {
		return line
	}
	same := 0
	for same < min(len(line), len(other)) && line[same] == other[same] {
		same++
	}
	from := max(0, same-before)
	to := min(len(line), from+most)
	cut := strings.ToValidUTF8(line[from:to], "")
	if label, _, ok := strings.Cut(line, ": "); ok && len(label) < before && from > len(label) {
		cut = label + ": …" + cut
	} else if from > 0 {
		cut = "…" + cut
	}
	if to < len(line) {
		cut += "…"
	}
	return cut
}
