package methodtest_test

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/estimatortest"
)

const boundary = "----WebKitFormBoundaryAttack"

// part returns a part of a multipart form.
func part(headers, content string) string {
	return "--" + boundary + "\r\n" + headers + "\r\n\r\n" + content + "\r\n"
}

func field(name, value string) string {
	return part(`Content-Disposition: form-data; name="`+name+`"`, value)
}

const imageHeaders = `Content-Disposition: form-data; name="image"; filename="still.jpg"` + "\r\nContent-Type: image/jpeg"

func imagePart(content []byte) string { return part(imageHeaders, string(content)) }

// sized returns a valid picture whose header contains another size.
func sized(width, height uint16) []byte {
	picture := estimatortest.Picture()
	at := bytes.Index(picture, []byte{0xff, 0xc0}) // the frame header of a baseline JPEG
	binary.BigEndian.PutUint16(picture[at+5:], height)
	binary.BigEndian.PutUint16(picture[at+7:], width)
	return picture
}

// Invalid pictures. The estimator gets no request, and no attempt is counted.
func TestPicture_Invalid(t *testing.T) {
	good := estimatortest.Picture()
	png := "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\xff\xff\x00\x00\xff\xff\x08\x06\x00\x00\x00"
	const form = "multipart/form-data; boundary=" + boundary
	for _, c := range []struct {
		rule, contentType string
		parts             string // after the fields of the page
		status            int
	}{
		{"no picture", form, "", 400},
		{"two pictures", form, imagePart(good) + imagePart(good), 400},
		{"an empty picture", form, imagePart(nil), 400},
		{"contract 37: a picture of 1 MiB and a byte", form,
			imagePart(append(bytes.Clone(good), make([]byte, 1<<20+1-len(good))...)), 413},
		{"a GIF", form, imagePart([]byte("GIF89a\x00\x02\x00\x02\x00\x00\x00;")), 400},
		{"an SVG", form, imagePart([]byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`)), 400},
		{"a PNG that unpacks to 16 GiB", form, imagePart([]byte(png)), 400},
		{"HTML with the name of a picture", form,
			imagePart([]byte("<!doctype html><script>alert(1)</script>")), 400},
		{"a picture with a page before it", form, imagePart(append([]byte("<html>"), good...)), 400},
		{"contract 37: 65,535 pixels a side", form, imagePart(sized(65535, 65535)), 400},
		{"contract 37: 4,097 pixels", form, imagePart(sized(4097, 400)), 400},
		{"contract 37: 255 pixels", form, imagePart(sized(255, 400)), 400},
		{"no pixels", form, imagePart(sized(0, 0)), 400},
		{"a picture that ends in its header", form, imagePart(good[:30]), 400},
		{"a text", "text/plain", imagePart(good), 415},
		{"another kind of form", "application/x-www-form-urlencoded", imagePart(good), 415},
		{"no boundary", "multipart/form-data", imagePart(good), 400},
		{"a boundary of 200 bytes", "multipart/form-data; boundary=" + strings.Repeat("b", 200),
			imagePart(good), 400},
		{"headers of 16 KiB", form, part(imageHeaders+"\r\nX-Long: "+strings.Repeat("x", 16<<10),
			string(good)), 400},
		{"a file name with a line feed", form,
			part("Content-Disposition: form-data; name=\"image\"; filename=\"a\r\nb.jpg\"", string(good)),
			400},
	} {
		t.Run(c.rule, func(t *testing.T) {
			s := newSite(t)
			started := s.Start(nil)
			page := s.Open(started.RedirectURL)
			f := page.StepForm("camera", nil)
			body := c.parts + "--" + boundary + "--\r\n"
			for name := range f.Fields {
				body = field(name, f.Fields.Get(name)) + body
			}
			r := s.Do("POST", f.Action, testharness.Headers("Content-Type", c.contentType), []byte(body))
			if r.Status != c.status {
				t.Errorf("%d, want %d: %.200s", r.Status, c.status, r.Body)
			}
			if n := len(s.estimator.Requests()) + s.estimator.Rejected(); n != 0 {
				t.Errorf("the estimator was asked %d times", n)
			}
			s.wantUndecided(started)
			if page.Upload("camera", good).Callback == nil {
				t.Error("a valid picture is no longer accepted")
			}
		})
	}
}

func TestPicture_BrowserVerdict(t *testing.T) {
	s := newSite(t)
	s.estimator.Answer(estimatortest.Answer{Age: 16})
	started := s.Start(nil)
	page := s.Open(started.RedirectURL)
	f := page.StepForm("camera", estimatortest.Picture())
	f.Add("age", "40")
	f.Add("outcome", "approve")
	if p := page.SubmitForm(f); p.Kind != "method" || p.Callback != nil {
		t.Errorf("a %s page (%d): the browser has decided", p.Kind, p.Status)
	}
	if status := s.Reconcile(started.SessionID).Text("status"); status != "PENDING" {
		t.Errorf("the session is %s", status)
	}
}

func TestPicture_FourthIsLate(t *testing.T) {
	s := newSite(t)
	s.estimator.Answer(estimatortest.Answer{Age: 16})
	started := s.Start(nil)
	page := s.Open(started.RedirectURL)
	var last *testharness.Page
	for range 3 {
		last, page = page, page.Upload("camera", estimatortest.Picture())
	}
	if page.Kind != "failed" {
		t.Fatalf("after three pictures: a %s page", page.Kind)
	}
	s.estimator.Answer(estimatortest.Answer{Age: 40})
	if p := last.Upload("camera", estimatortest.Picture()); p.Kind != "failed" ||
		len(s.estimator.Requests()) != 3 {
		t.Errorf("a %s page, and the estimator was asked %d times", p.Kind, len(s.estimator.Requests()))
	}
	if r := s.Reconcile(started.SessionID); r.Text("failure_code") != "MAX_ATTEMPTS" {
		t.Errorf("%s", r.Body)
	}
	if !strings.Contains(s.Metrics(), `verge_events_total{event="late_answer_ignored"} 1`) {
		t.Error("the late response is not counted")
	}
}

// An estimator that rejects the service decides no session.
func TestEstimator_InvalidResponses(t *testing.T) {
	for rule, a := range map[string]estimatortest.Answer{
		"the token is unknown":     {Status: 401},
		"too many requests":        {Status: 429},
		"an age of zero":           {Body: `{"age":0,"deviation":1,"live":true}`},
		"an age below zero":        {Body: `{"age":-30,"deviation":1,"live":true}`},
		"an age beyond all bounds": {Body: `{"age":1e308,"deviation":1,"live":true}`},
		"no deviation":             {Body: `{"age":40,"live":true}`},
		"a truncated response":     {Age: 40, Cut: true},
		"a duplicate field": {
			Body: `{"age":16,"age":40,"deviation":1,"live":true}`},
	} {
		t.Run("contract 37: "+rule, func(t *testing.T) {
			s := newSite(t)
			s.estimator.Answer(a)
			started := s.Start(nil)
			p := s.Open(started.RedirectURL).Upload("camera", estimatortest.Picture())
			if p.Status != 503 || p.Kind != "method" {
				t.Errorf("a %s page (%d)", p.Kind, p.Status)
			}
			s.wantUndecided(started)
		})
	}
}

// A user loads the address to which pictures are posted: the page explains what to do.
func TestPicture_AddressLoaded(t *testing.T) {
	s := newSite(t)
	p := s.OpenWith(testharness.Headers("Accept", "text/html"), s.BaseURL+"/verify/file")
	if p.Status != 405 || p.Kind != "no_picture" || p.Header.Get("Allow") != "POST" ||
		!strings.Contains(string(p.Body), "choose or take the photo again") {
		t.Errorf("a %s page (%d): %.300s", p.Kind, p.Status, p.Body)
	}
	html := testharness.Headers("Accept", "text/html")
	if r := s.Do("GET", "/verify/return/a/b", html, nil); r.Status != 404 {
		t.Errorf("another path: %d", r.Status)
	}
	if r := s.Do("POST", "/verify/return/bank", html, nil); r.Status != 405 ||
		strings.Contains(string(r.Body), "no_picture") {
		t.Errorf("another address without POST: %d", r.Status)
	}
}
