package formdata

import (
	"bytes"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/verge-id/verge/core/web"
)

// Limits of a form with a file. The route limits the whole.
const (
	maxFormParts  = 64
	maxPartHeader = 1024
	maxBoundary   = 70 // RFC 2046, 5.1.1
)

// formError is the place and the reason of a body that ReadFile rejects. It does not quote the body,
// which may contain a token or a picture.
type formError struct {
	Offset  int // in bytes of the body; 0 for the Content-Type
	Problem string
}

func (e *formError) Error() string {
	return fmt.Sprintf("body is not an acceptable form at byte %d: %s", e.Offset, e.Problem)
}

// ReadFile reads a body of the type multipart/form-data: the fields that have one of the names, and at
// most one file, under the name file. content is nil if the form has no such file. An empty file is not nil.
//
// It accepts the forms that browsers send from our pages, and no other variant of the standards. These are
// errors of type *formError: text before the first boundary or after the last, a header that browsers do not
// send, a line that does not end in CRLF, more than 64 parts, and more than 1 KiB of headers in a part. A
// part with one of the names must occur once, must not be a file and must be UTF-8. The file must occur once,
// too. Its own name and type are ignored, as is every part with another name (contract 22). mime/multipart
// accepts every body that ReadFile accepts, and reads the same.
func ReadFile(contentType string, body []byte, file string, names ...string) (fields url.Values,
	content []byte, err error) {
	boundary, ok := formBoundary(contentType)
	if !ok {
		return nil, nil, &formError{0, "the Content-Type is not multipart/form-data with one good boundary"}
	}
	f := formReader{body: body, delimiter: []byte("\r\n--" + boundary)}
	if !f.skip(f.delimiter[2:]) || !f.skip(crlf) {
		return nil, nil, f.fail("want the boundary")
	}
	fields = url.Values{}
	for parts := 1; ; parts++ {
		if parts > maxFormParts {
			return nil, nil, f.fail("too many parts")
		}
		start := f.at
		h, err := f.header()
		if err != nil {
			return nil, nil, err
		}
		value, err := f.content()
		if err != nil {
			return nil, nil, err
		}
		isOurs := h.name == file || slices.Contains(names, h.name)
		switch {
		case !isOurs:
		case fields.Has(h.name) || h.name == file && content != nil:
			return nil, nil, &formError{start, "a part of this name was there before"}
		case h.isFile != (h.name == file):
			return nil, nil, &formError{start, "a file where a field is wanted, or a field where a file is"}
		case h.isFile:
			content = value
		case h.typed:
			return nil, nil, &formError{start, "a field with a type"}
		case !utf8.Valid(value):
			return nil, nil, &formError{start, "a field with invalid UTF-8"}
		default:
			fields.Set(h.name, string(value))
		}
		if f.skip(crlf) {
			continue
		}
		if f.skip([]byte("--")) && (f.at == len(body) || f.skip(crlf) && f.at == len(body)) {
			return fields, content, nil
		}
		return nil, nil, f.fail("want the end of the boundary's line, or of the form")
	}
}

var crlf = []byte("\r\n")

// formBoundary returns the boundary of a Content-Type that has no other parameter.
func formBoundary(contentType string) (boundary string, ok bool) {
	mediaType, parameter, _ := strings.Cut(contentType, ";")
	if web.MediaType(mediaType) != "multipart/form-data" {
		return "", false
	}
	name, value, ok := strings.Cut(strings.TrimLeft(parameter, " \t"), "=")
	if !ok || !strings.EqualFold(name, "boundary") {
		return "", false
	}
	allowed := boundaryText
	if inner, quoted := strings.CutPrefix(value, `"`); quoted {
		if value, ok = strings.CutSuffix(inner, `"`); !ok {
			return "", false
		}
		allowed += boundaryQuoted
	}
	return value, value != "" && len(value) <= maxBoundary && strings.Trim(value, allowed) == ""
}

// Characters that a boundary may have (RFC 2046), and those that require quotes (RFC 2045). The space is left
// out: no browser sends one.
const (
	boundaryText   = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'+_-."
	boundaryQuoted = "(),/:=?"
)

// formReader reads the body from front to back.
type formReader struct {
	body      []byte
	at        int
	delimiter []byte // CRLF, two hyphens and the boundary
}

func (f *formReader) fail(problem string) *formError { return &formError{f.at, problem} }

func (f *formReader) skip(what []byte) bool {
	if !bytes.HasPrefix(f.body[f.at:], what) {
		return false
	}
	f.at += len(what)
	return true
}

// partHeader is the relevant part of the headers of a part.
type partHeader struct {
	name   string
	isFile bool // it has a file name
	typed  bool // it has a Content-Type
}

// header reads the headers of a part and the empty line behind them.
func (f *formReader) header() (h partHeader, err error) {
	end := bytes.Index(f.body[f.at:min(len(f.body), f.at+maxPartHeader+4)], []byte("\r\n\r\n"))
	if end < 0 {
		return h, f.fail("the headers of a part do not end, or are too long")
	}
	described := false
	for line := range strings.SplitSeq(string(f.body[f.at:f.at+end]), "\r\n") {
		name, value, _ := strings.Cut(line, ": ")
		switch {
		case strings.EqualFold(name, "Content-Disposition") && !described:
			if h.name, h.isFile, described = disposition(value); !described {
				return h, f.fail("a Content-Disposition that browsers do not send")
			}
		case strings.EqualFold(name, "Content-Type") && !h.typed:
			if !isPlain(value) || strings.HasPrefix(strings.ToLower(strings.TrimSpace(value)), "multipart/") {
				return h, f.fail("a Content-Type that no field and no file of a form has")
			}
			h.typed = true
		default:
			return h, f.fail("a header that browsers do not send")
		}
	}
	if !described {
		return h, f.fail("a part without a name")
	}
	f.at += end + 4
	return h, nil
}

// disposition reads the value of a Content-Disposition. Browsers write a quote in a name as %22, so a name
// ends at the first quote. The name of a file may hold backslashes, but none before the quote: some readers
// would take that quote for a part of the name.
func disposition(value string) (name string, isFile, ok bool) {
	rest, ok := strings.CutPrefix(value, `form-data; name="`)
	if !ok || !isPlain(value) {
		return "", false, false
	}
	name, rest, ok = strings.Cut(rest, `"`)
	if !ok || name == "" || strings.Contains(name, `\`) {
		return "", false, false
	}
	if rest == "" {
		return name, false, true
	}
	rest, ok = strings.CutPrefix(rest, `; filename="`)
	if !ok {
		return "", false, false
	}
	fileName, rest, ok := strings.Cut(rest, `"`)
	return name, true, ok && rest == "" && !strings.HasSuffix(fileName, `\`)
}

// isPlain reports whether a header's value is UTF-8 without control characters.
func isPlain(value string) bool {
	return utf8.ValidString(value) &&
		!strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// content reads the content of a part, and the boundary after it. The content must not start with the
// boundary, since some readers would take that for the end of an empty part.
func (f *formReader) content() ([]byte, error) {
	rest := f.body[f.at:]
	if bytes.HasPrefix(rest, f.delimiter[2:]) {
		return nil, f.fail("a boundary where content begins")
	}
	n := bytes.Index(rest, f.delimiter)
	if n < 0 {
		f.at = len(f.body)
		return nil, f.fail("a part that does not end")
	}
	f.at += n + len(f.delimiter)
	return rest[:n:n], nil
}
