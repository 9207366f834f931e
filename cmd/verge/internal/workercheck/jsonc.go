package workercheck

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// plainJSON replaces the comments and the trailing commas of JSON with comments by spaces, so that offsets
// and lines remain.
func plainJSON(text []byte) []byte {
	out := bytes.Clone(text)
	blank := func(from, to int) {
		for i := from; i < to; i++ {
			if out[i] != '\n' {
				out[i] = ' '
			}
		}
	}
	comma := -1 // the position of the last comma, if only white space and comments follow
	for i := 0; i < len(out); i++ {
		switch c := out[i]; {
		case c == '"':
			comma = -1
			for i++; i < len(out) && out[i] != '"'; i++ {
				if out[i] == '\\' {
					i++
				}
			}
		case bytes.HasPrefix(out[i:], []byte("//")), bytes.HasPrefix(out[i:], []byte("/*")):
			end := len(out)
			if out[i+1] == '/' {
				if n := bytes.IndexByte(out[i:], '\n'); n >= 0 {
					end = i + n
				}
			} else if n := bytes.Index(out[i+2:], []byte("*/")); n >= 0 {
				end = i + 2 + n + 2
			}
			blank(i, end)
			i = end - 1
		case c == ',':
			comma = i
		case c == '}' || c == ']':
			if comma >= 0 {
				out[comma] = ' '
			}
			comma = -1
		case c != ' ' && c != '\t' && c != '\n' && c != '\r':
			comma = -1
		}
	}
	return out
}

// linesOf returns the line of each value by its path, as in vars.VERGE_SITE.publishers.0.id.
func linesOf(text []byte) (map[string]int, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	lines := map[string]int{}
	line := func() int { return 1 + bytes.Count(text[:d.InputOffset()], []byte("\n")) }
	var value func(path string) error
	value = func(path string) error {
		token, err := d.Token()
		if err != nil {
			return err
		}
		if _, named := lines[path]; !named {
			lines[path] = line()
		}
		delim, is := token.(json.Delim)
		if !is {
			return nil
		}
		for n := 0; d.More(); n++ {
			name := strconv.Itoa(n)
			if delim == '{' {
				key, err := d.Token()
				if err != nil {
					return err
				}
				name = fmt.Sprint(key)
			}
			if path != "" {
				name = path + "." + name
			}
			if delim == '{' {
				lines[name] = line()
			}
			if err := value(name); err != nil {
				return err
			}
		}
		_, err = d.Token()
		return err
	}
	err := value("")
	if err == nil {
		if _, err = d.Token(); errors.Is(err, io.EOF) {
			return lines, nil
		}
		err = errors.New("something follows the object")
	}
	at := d.InputOffset()
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		at = min(syntax.Offset, int64(len(text)))
	}
	return nil, &Problem{
		Line: 1 + bytes.Count(text[:at], []byte("\n")),
		Text: "not JSON with comments: " + err.Error(),
	}
}
