package simulation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/jpeg"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/estimator"
)

const (
	estimatorURL   = "https://estimator.example/estimate"
	estimateMethod = "estimate"
	maxDeviation   = 6.0 // of an estimate that counts
	maxPictures    = 10  // of a session that are sent
)

func estimateConfig() method.Config {
	settings, err := json.Marshal(map[string]any{"profile": "plain", "url": estimatorURL,
		"deviation": maxDeviation})
	must(err)
	return method.Config{Name: estimateMethod, Kind: estimator.Kind.Name, Settings: settings,
		Secrets: map[string]string{"token": "estimator-of-the-simulation"}}
}

// picture is a photo that a browser posts. The estimator sees the age of its person.
type picture struct {
	session *session
	browser *browser
	form    string // of the post
	age     int
	unsure  bool
	fake    bool
}

// blank is a JPEG.
var blank = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	must(jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 256, 256)), nil))
	return b.Bytes()
})

// jpegOf returns a JPEG unlike any other one of the history.
func jpegOf(n int) []byte {
	all := blank()
	image := bytes.Clone(all[:len(all)-2])
	for _, digit := range fmt.Sprintf("%08d", n) {
		image = append(image, byte(digit))
	}
	return append(image, all[len(all)-2:]...)
}

// markOf returns the end of a JPEG: different in each picture, and unchanged when its metadata is removed.
func markOf(content []byte) string { return string(content[max(0, len(content)-10):]) }

// pose is a user who takes a photo and posts it.
func (w *world) pose(v *session, b *browser, f form) page {
	act := w.current.act
	w.sleep(time.Duration(1+act.pick(20)) * time.Second)
	if act.chance(w.rate[switchTabs]) {
		w.person("second photo of "+w.current.name, func() { w.judge.saw(v, b, w.shoot(v, b, f)) })
	}
	return w.shoot(v, b, f)
}

// shoot takes a photo and posts it with a form.
func (w *world) shoot(v *session, b *browser, f form) page {
	act := w.current.act
	content := jpegOf(len(w.pictures))
	p := &picture{session: v, browser: b, form: f.fields.Encode(), age: []int{45, 27, 22, 12}[act.pick(4)],
		unsure: act.chance(100), fake: act.chance(100)}
	w.pictures[markOf(content)] = p
	w.tell(w.current.name, "posts a photo of a person of about %d", p.age)
	v.acts["fail_attempt"] = true
	v.failing[fmt.Sprint("photo ", len(v.failing))] = true
	return b.upload(f, content)
}

// estimate is a request of the service to the estimator.
func (w *world) estimate(req host.FetchRequest) (host.FetchResponse, error) {
	p := w.pictures[markOf(req.Body)]
	if p == nil || req.Header["Content-Type"] != "image/jpeg" {
		w.judge.fail("contract 37: the estimator gets %q and %d bytes that no user posted so", req.Header,
			len(req.Body))
		return host.FetchResponse{Status: 400}, nil
	}
	took, fault := 300*time.Millisecond, 0
	if !w.healed && w.current.act.chance(w.rate[switchReceivers]) {
		w.met(switchReceivers)
		fault = 1 + w.current.act.pick(6)
	}
	if fault == 1 { // the request is lost
		w.sleep(10 * time.Second)
		return host.FetchResponse{}, &host.FetchError{Reason: host.FetchTimeout, Err: errFault}
	}
	w.judge.photographed(p)
	answer := map[string]any{"age": p.age, "deviation": 2.5, "live": !p.fake}
	if p.unsure {
		answer["deviation"] = 9
	}
	response := host.FetchResponse{Status: 200, Header: map[string]string{"Content-Type": "application/json"}}
	switch fault {
	case 2:
		response.Status = 500
	case 3:
		took = 9 * time.Second
	case 4: // the response is lost
		w.sleep(10 * time.Second)
		return host.FetchResponse{}, &host.FetchError{Reason: host.FetchTimeout, Err: errFault}
	case 5:
		answer = map[string]any{"age": "99", "deviation": 2.5, "live": true}
	case 6:
		answer = map[string]any{"age": 99, "deviation": 2.5} // nothing about a live person
	}
	if response.Status == 200 && fault < 5 {
		w.judge.estimated(p)
	}
	var err error
	response.Body, err = json.Marshal(answer)
	must(err)
	w.tell("estimator", "sees a person of about %d: %d", p.age, response.Status)
	w.sleep(took)
	return response, nil
}

// photographed is a picture that arrives at the estimator.
func (j *judge) photographed(p *picture) {
	if p.session.photos++; p.session.photos > maxPictures && !j.forgot {
		j.fail("contract 37: more than %d photos of session %s are sent", maxPictures, short(p.session.id))
	}
	if p.session.estimated[p.form] && !j.disturbed() {
		j.fail("contract 37: a form of session %s has two photos estimated", short(p.session.id))
	}
	p.session.estimated[p.form] = true
}

// estimated is a response about a picture.
func (j *judge) estimated(p *picture) {
	if p.unsure || p.fake {
		return
	}
	p.session.acts["approve"] = true
	p.session.proofs = append(p.session.proofs, &shownProof{browser: p.browser, issuer: estimateMethod,
		age: p.age, at: j.w.now, level: 1})
	j.reach("photo estimated")
}

// upload posts the form of a camera.
func (b *browser) upload(f form, content []byte) page {
	const boundary = "boundary-of-the-simulation"
	var body bytes.Buffer
	part := func(header string, content []byte) {
		fmt.Fprintf(&body, "--%s\r\nContent-Disposition: form-data; name=%s\r\n\r\n%s\r\n", boundary, header,
			content)
	}
	for _, name := range slices.Sorted(maps.Keys(f.fields)) {
		part(`"`+name+`"`, []byte(f.fields.Get(name)))
	}
	part(`"image"; filename="photo.jpg"`+"\r\nContent-Type: image/jpeg", content)
	fmt.Fprintf(&body, "--%s--\r\n", boundary)
	return b.sendBody("POST", f.action, "multipart/form-data; boundary="+boundary, body.Bytes())
}
