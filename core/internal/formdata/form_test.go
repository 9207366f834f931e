package formdata

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"slices"
	"strings"
	"testing"
)

const (
	testBoundary = "----WebKitFormBoundaryAbc123"
	testFormType = "multipart/form-data; boundary=" + testBoundary
)

// testFields are the names of fields that tests use.
var testFields = []string{"flow", "attempt", "a", "b"}

// formBody joins parts, which are headers, an empty line and content, to the body of a form.
func formBody(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString("--" + testBoundary + "\r\n" + p + "\r\n")
	}
	return b.String() + "--" + testBoundary + "--\r\n"
}

func fieldPart(name, value string) string {
	return `Content-Disposition: form-data; name="` + name + "\"\r\n\r\n" + value
}

func filePart(name, fileName, content string) string {
	return `Content-Disposition: form-data; name="` + name + `"; filename="` + fileName +
		"\"\r\nContent-Type: image/jpeg\r\n\r\n" + content
}

func TestReadFile(t *testing.T) {
	const picture = "\xff\xd8\r\n--\r\n\x00\r\n------WebKitFormBoundary\xff\xd9"
	fields, content, err := ReadFile(testFormType, []byte(formBody(fieldPart("flow", "a.b\r\nc"),
		fieldPart("attempt", ""), filePart("image", `C:\ü.jpg`, picture))), "image", testFields...)
	if err != nil {
		t.Fatal(err)
	}
	if len(fields) != 2 || fields.Get("flow") != "a.b\r\nc" || !fields.Has("attempt") {
		t.Errorf("the fields are %q", fields)
	}
	if string(content) != picture {
		t.Errorf("the file is %q", content)
	}

	_, content, err = ReadFile(testFormType, []byte(formBody(filePart("image", "", ""))), "image")
	if err != nil || content == nil || len(content) > 0 {
		t.Errorf("an empty file is %v, %v; want present and empty", content, err)
	}
	_, content, err = ReadFile(testFormType, []byte(formBody(fieldPart("flow", "x"))), "image")
	if err != nil || content != nil {
		t.Errorf("no file is %v, %v", content, err)
	}
}

func TestReadFileTakesBoundaries(t *testing.T) {
	for _, c := range []struct{ rule, contentType, boundary string }{
		{"Chromium, Safari", "multipart/form-data; boundary=----WebKitFormBoundaryx",
			"----WebKitFormBoundaryx"},
		{"Firefox", "multipart/form-data; boundary=----geckoformboundary1a2b", "----geckoformboundary1a2b"},
		{"no space, other case", "Multipart/Form-Data;Boundary=x", "x"},
		{"RFC 2046: seventy characters", "multipart/form-data; boundary=" + strings.Repeat("b", 70),
			strings.Repeat("b", 70)},
		{"RFC 2045: in quotes", `multipart/form-data; boundary="a:b=(c)"`, "a:b=(c)"},
	} {
		body := strings.ReplaceAll(formBody(fieldPart("a", "b")), testBoundary, c.boundary)
		fields, _, err := ReadFile(c.contentType, []byte(body), "image", testFields...)
		if err != nil || fields.Get("a") != "b" {
			t.Errorf("%s: %q, %v", c.rule, fields, err)
		}
	}
}

// rejectedForm is a form that is rejected.
type rejectedForm struct{ rule, contentType, body string }

// wantRejected checks that each form is rejected, and that the error has the position in the body.
func wantRejected(t *testing.T, forms []rejectedForm) {
	t.Helper()
	for _, c := range forms {
		t.Run(c.rule, func(t *testing.T) {
			fields, content, err := ReadFile(c.contentType, []byte(c.body), "image", testFields...)
			wrong, ok := errors.AsType[*formError](err)
			if !ok {
				t.Fatalf("got %q, %q, %v, want a *FormError", fields, content, err)
			}
			if fields != nil || content != nil {
				t.Error("an error comes with values")
			}
			if wrong.Offset < 0 || wrong.Offset > len(c.body) {
				t.Errorf("the offset %d is not in the body of %d bytes", wrong.Offset, len(c.body))
			}
		})
	}
}

// goodForm is a form that is read.
func goodForm(t *testing.T) string {
	t.Helper()
	good := formBody(fieldPart("flow", "x"), filePart("image", "a.jpg", "picture"))
	if _, _, err := ReadFile(testFormType, []byte(good), "image", testFields...); err != nil {
		t.Fatal(err)
	}
	return good
}

// The Content-Type must be that of a form with a file, with a boundary that browsers would send.
func TestReadFileRejectsTypes(t *testing.T) {
	good := goodForm(t)
	wantRejected(t, []rejectedForm{
		{"another type", "text/plain", good},
		{"a form without a file", "application/x-www-form-urlencoded", "flow=x"},
		{"no Content-Type", "", good},
		{"no boundary", "multipart/form-data", good},
		{"an empty boundary", "multipart/form-data; boundary=",
			"--\r\n" + fieldPart("a", "b") + "\r\n----\r\n"},
		{"an empty boundary in quotes", `multipart/form-data; boundary=""`, good},
		{"RFC 2046: a boundary of 71 characters", "multipart/form-data; boundary=" + strings.Repeat("b", 71),
			strings.ReplaceAll(good, testBoundary, strings.Repeat("b", 71))},
		{"a boundary of 200 bytes", "multipart/form-data; boundary=" + strings.Repeat("b", 200),
			strings.ReplaceAll(good, testBoundary, strings.Repeat("b", 200))},
		{"a boundary with a semicolon", "multipart/form-data; boundary=a;b", strings.ReplaceAll(good,
			testBoundary, "a;b")},
		{"a boundary with a line feed", "multipart/form-data; boundary=\"a\nb\"",
			strings.ReplaceAll(good, testBoundary, "a\nb")},
		{"an unterminated quoted boundary", `multipart/form-data; boundary="` + testBoundary, good},
		{"RFC 2045: a colon without quotes", "multipart/form-data; boundary=a:b",
			strings.ReplaceAll(good, testBoundary, "a:b")},
		{"two boundaries", testFormType + "; boundary=x", good},
		{"another parameter", testFormType + "; charset=utf-8", good},
		{"another boundary than announced", "multipart/form-data; boundary=x", good},
	})
}

// The body is parts between boundaries, and nothing else.
func TestReadFileRejectsBodies(t *testing.T) {
	good := goodForm(t)
	wantRejected(t, []rejectedForm{
		{"an empty body", testFormType, ""},
		{"no parts", testFormType, "--" + testBoundary + "--\r\n"},
		{"a preamble", testFormType, "x\r\n" + good},
		{"an empty line before the first boundary", testFormType, "\r\n" + good},
		{"an epilogue", testFormType, good + "x"},
		{"a second form behind the first", testFormType, good + good},
		{"lines that end in LF", testFormType, strings.ReplaceAll(good, "\r\n", "\n")},
		{"a blank behind the boundary", testFormType,
			strings.Replace(good, testBoundary+"\r\n", testBoundary+" \r\n", 1)},
		{"cut behind the boundary", testFormType, "--" + testBoundary},
		{"cut in the headers", testFormType, good[:60]},
		{"cut in the file", testFormType, good[:len(good)-len(testBoundary)-6]},
		{"cut before the last two hyphens", testFormType, strings.TrimSuffix(good, "--\r\n")},
		{"content that begins with the boundary", testFormType,
			formBody(fieldPart("a", "--"+testBoundary+"\r\n"+fieldPart("b", "x")))},
		{"content with a longer boundary", testFormType,
			formBody(fieldPart("a", "\r\n--"+testBoundary+"x"))},
	})
}

// The parts are a few fields of text and one file.
func TestReadFileRejectsParts(t *testing.T) {
	many := make([]string, maxFormParts)
	for i := range many {
		many[i] = fieldPart("unknown", "x")
	}
	if _, _, err := ReadFile(testFormType, []byte(formBody(many...)), "image",
		testFields...); err != nil {
		t.Fatalf("as many parts as may be: %v", err)
	}
	wantRejected(t, []rejectedForm{
		{"two files", testFormType, formBody(filePart("image", "a", "1"), filePart("image", "b", "2"))},
		{"two files, the first empty", testFormType,
			formBody(filePart("image", "a", ""), filePart("image", "b", "2"))},
		{"a file under the name of a field", testFormType, formBody(filePart("a", "a", "1"))},
		{"the file as a field", testFormType, formBody(fieldPart("image", "1"))},
		{"a field twice", testFormType, formBody(fieldPart("a", "1"), fieldPart("a", "1"))},
		{"too many parts", testFormType, formBody(append(many, fieldPart("a", "x"))...)},
		{"a field that is not UTF-8", testFormType, formBody(fieldPart("a", "\xff"))},
		{"a field with a type", testFormType,
			formBody("Content-Disposition: form-data; name=\"a\"\r\nContent-Type: text/plain\r\n\r\nx")},
		{"a form in the form", testFormType,
			formBody("Content-Disposition: form-data; name=\"image\"; filename=\"a\"\r\n" +
				"Content-Type: Multipart/mixed; boundary=y\r\n\r\n--y--")},
	})
}

// Parts that Verge does not use are ignored, with any content.
func TestReadFileIgnoresOthers(t *testing.T) {
	fields, content, err := ReadFile(testFormType, []byte(formBody(fieldPart("x", "1"), fieldPart("x",
		"2"),
		filePart("photo", "a", "1"), filePart("photo", "a", "1"), fieldPart("y", "\xff"), fieldPart("flow",
			"x"),
		"Content-Disposition: form-data; name=\"z\"\r\nContent-Type: text/plain\r\n\r\nx",
		filePart("image", "a", "picture"), filePart("Image", "a", "1"), fieldPart("Flow", "y"))), "image",
		testFields...)
	if err != nil || len(fields) != 1 || fields.Get("flow") != "x" || string(content) != "picture" {
		t.Errorf("contract 22: %q, %q, %v", fields, content, err)
	}
}

// A part has a Content-Disposition, and a file also a Content-Type.
func TestReadFileRejectsPartHeaders(t *testing.T) {
	disposition := func(value string) string { return "Content-Disposition: " + value + "\r\n\r\nx" }
	wantRejected(t, []rejectedForm{
		{"part headers of 16 KiB", testFormType,
			formBody(filePart("image", strings.Repeat("n", 16<<10), "x"))},
		{"part headers of 1 KiB and one byte", testFormType,
			formBody(filePart("image", strings.Repeat("n", 1025-len(filePart("image", "", ""))+4), "x"))},
		{"a name of a file with CRLF", testFormType, formBody(filePart("image", "a\r\nX: y", "x"))},
		{"a name of a file with CRLF and a known header", testFormType,
			formBody(filePart("image", "a\r\nContent-Type: text/html", "x"))},
		{"a name of a file with LF", testFormType, formBody(filePart("image", "a\nb", "x"))},
		{"a name of a file with NUL", testFormType, formBody(filePart("image", "a\x00b", "x"))},
		{"a name of a file with a quote", testFormType, formBody(filePart("image", `a\"b`, "x"))},
		{"a name of a file that ends in a backslash", testFormType, formBody(filePart("image", `a\`, "x"))},
		{"a name of a field with a backslash", testFormType, formBody(fieldPart(`a\b`, "x"))},
		{"an unterminated name", testFormType, formBody(disposition(`form-data; name="a`))},
		{"a name without quotes", testFormType, formBody(disposition(`form-data; name=a`))},
		{"no name", testFormType, formBody(disposition(`form-data`))},
		{"an empty name", testFormType, formBody(fieldPart("", "x"))},
		{"two names", testFormType, formBody(disposition(`form-data; name="a"; name="b"`))},
		{
			"an extended name",
			testFormType,
			formBody(disposition(`form-data; name="image"; filename*=UTF-8''a`)),
		},
		{"an attachment", testFormType, formBody(disposition(`attachment; name="a"`))},
		{"two dispositions", testFormType,
			formBody("Content-Disposition: form-data; name=\"b\"\r\n" + fieldPart("a", "x"))},
		{"two types", testFormType, formBody("Content-Type: a/b\r\n" + filePart("image", "a", "x"))},
		{"a folded header", testFormType, formBody(disposition("form-data;\r\n name=\"a\""))},
		{"a transfer encoding", testFormType,
			formBody("Content-Transfer-Encoding: quoted-printable\r\n" + fieldPart("a", "=41"))},
		{"another header", testFormType, formBody("X-A: b\r\n" + fieldPart("a", "x"))},
		{"no header", testFormType, formBody("\r\nx")},
		{"a type alone", testFormType, formBody("Content-Type: image/jpeg\r\n\r\nx")},
	})
}

func TestReadFileErrorHidesTheBody(t *testing.T) {
	_, _, err := ReadFile(testFormType, []byte(formBody(fieldPart("canary", "canary"), "canary")),
		"image", testFields...)
	if err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("contract 13: the error is %v", err)
	}
}

// The standard library writes forms like browsers do.
func TestReadFileReadsWhatIsWritten(t *testing.T) {
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	if err := w.WriteField("flow", "ü"); err != nil {
		t.Fatal(err)
	}
	file, err := w.CreateFormFile("image", "a b.jpg")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write([]byte("picture")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	fields, content, err := ReadFile(w.FormDataContentType(), body.Bytes(), "image", testFields...)
	if err != nil || fields.Get("flow") != "ü" || string(content) != "picture" {
		t.Errorf("read %q, %q, %v", fields, content, err)
	}
}

// FuzzReadFile compares ReadFile with mime/multipart, which must accept what it accepts and read the
// same.
func FuzzReadFile(f *testing.F) {
	for _, parts := range [][]string{
		{fieldPart("flow", "x"), filePart("image", "a.jpg", "\xff\xd8")},
		{fieldPart("a", ""), fieldPart("b", "\r\n"), filePart("image", "", "")},
		{filePart("image", `C:\%22.jpg`, "\r\n--"), fieldPart("a", "--"+testBoundary)},
		{fieldPart("a", "x\r\n--"+testBoundary+"x")},
		{"Content-Type:  a\r\n" + fieldPart("image", "x")},
	} {
		f.Add(testFormType, []byte(formBody(parts...)))
	}
	f.Add(`multipart/form-data; boundary="a:b"`, []byte("--a:b\r\n"+fieldPart("a", "b")+"\r\n--a:b--"))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		fields, content, err := ReadFile(contentType, body, "image", testFields...)
		if err != nil {
			return
		}
		_, params, err := mime.ParseMediaType(contentType)
		if err != nil {
			t.Fatalf("%q: mime does not read it: %v", contentType, err)
		}
		known := 0
		for r := multipart.NewReader(bytes.NewReader(body), params["boundary"]); ; {
			part, err := r.NextRawPart()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%q: mime/multipart does not read it: %v", body, err)
			}
			value, err := io.ReadAll(part)
			if err != nil {
				t.Fatalf("%q: mime/multipart does not read a part: %v", body, err)
			}
			name := part.FormName()
			_, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
			if err != nil {
				t.Fatalf("%q: mime does not read a Content-Disposition: %v", body, err)
			}
			if name != "image" && !slices.Contains(testFields, name) {
				continue
			}
			known++
			if _, isFile := params["filename"]; isFile != (name == "image") {
				t.Fatalf("%q: a file is under the name %q", body, name)
			}
			if name == "image" {
				if content == nil || !bytes.Equal(content, value) {
					t.Fatalf("%q: the file is %q, mime/multipart reads %q", body, content, value)
				}
			} else if !fields.Has(name) || fields.Get(name) != string(value) {
				t.Fatalf("%q: the field %q is %q, mime/multipart reads %q", body, name, fields.Get(name),
					value)
			}
		}
		want := len(fields)
		if content != nil {
			want++
		}
		if known != want {
			t.Fatalf("%q: %d parts, mime/multipart reads %d", body, want, known)
		}
	})
}
