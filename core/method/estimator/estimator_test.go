package estimator_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/steperror"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/estimator"
	"github.com/verge-id/verge/testharness/estimatortest"
)

const (
	token = "token-canary"
	sdkID = "b88ad843-13cc-44ba-a3e0-053f71d89b1f"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// still is a picture that is taken.
var still = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	if err := jpeg.Encode(&b, image.NewYCbCr(image.Rect(0, 0, 300, 400), image.YCbCrSubsampleRatio420),
		nil); err != nil {
		panic(err)
	}
	return b.Bytes()
})

var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// fixture is a method with a host and an estimator.
type fixture struct {
	estimator *estimatortest.Estimator
	config    method.Config
	host      method.Host
	now       time.Time                // the host's clock
	change    func(*host.FetchRequest) // on the way out
	fetched   []host.FetchRequest
	fetchErr  error
}

// Fetch implements host.Fetcher.
func (w *fixture) Fetch(ctx context.Context, req host.FetchRequest) (host.FetchResponse, error) {
	w.fetched = append(w.fetched, req)
	if w.fetchErr != nil {
		return host.FetchResponse{}, w.fetchErr
	}
	if w.change != nil {
		w.change(&req)
	}
	timeout := req.Timeout
	if w.estimator == nil || timeout > 300*time.Millisecond {
		timeout = 300 * time.Millisecond // no test waits for the real one
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, req.Method, req.URL, bytes.NewReader(req.Body))
	if err != nil {
		return host.FetchResponse{}, err
	}
	for name, value := range req.Header {
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return host.FetchResponse{}, &host.FetchError{Reason: host.FetchTimeout, Err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return host.FetchResponse{}, &host.FetchError{Reason: host.FetchMalformed, Err: err}
	}
	return host.FetchResponse{Status: resp.StatusCode, Body: body}, nil
}

// newFixture serves both profiles; profile is the method's.
func newFixture(t *testing.T, profile string) *fixture {
	t.Helper()
	w := &fixture{now: noon}
	var base string
	w.estimator, base = estimatortest.Serve(t, estimatortest.Config{Token: token, SDKID: sdkID,
		Key: &rsaKey().PublicKey, Now: func() time.Time { return noon }})
	w.config = method.Config{Name: "camera", Kind: "estimator", Dev: true}
	switch profile {
	case "plain":
		w.config.Settings = json.RawMessage(`{"profile":"plain","url":"` + base + estimatortest.PlainPath + `"}`)
		w.config.Secrets = map[string]string{"token": token}
	case "yoti":
		w.config.Settings = json.RawMessage(`{"profile":"yoti","url":"` + base + estimatortest.YotiPath +
			`/","sdk_id":"` + sdkID + `"}`)
		w.config.Keys = []string{"private_key"}
	}
	w.host = method.Host{
		Now:    func() time.Time { return w.now },
		Random: &coretest.Random{},
		Fetch:  w,
		Sign: func(_ context.Context, key, algorithm string, message []byte) ([]byte, error) {
			if key != "camera_private_key" || algorithm != "RS256" {
				return nil, fmt.Errorf("asked to sign with %s and %s", key, algorithm)
			}
			digest := sha256.Sum256(message)
			return rsa.SignPKCS1v15(nil, rsaKey(), crypto.SHA256, digest[:])
		},
	}
	return w
}

func (w *fixture) open(t *testing.T) method.Method {
	t.Helper()
	if err := estimator.Kind.Check(w.config).Err(); err != nil {
		t.Fatal(err)
	}
	m, err := estimator.Kind.Open(w.config, w.host)
	coretest.Must(t, err)
	return m
}

// set adds members to the settings.
func (w *fixture) set(t *testing.T, members string) {
	t.Helper()
	all := map[string]any{}
	coretest.Must(t, json.Unmarshal(w.config.Settings, &all))
	coretest.Must(t, json.Unmarshal([]byte(members), &all))
	raw, err := json.Marshal(all)
	coretest.Must(t, err)
	w.config.Settings = raw
}

func act(t *testing.T, m method.Method, s method.Session, file []byte) (method.Decision, error) {
	t.Helper()
	s.Level = "L1"
	if s.ChallengeAge == 0 {
		s.ChallengeAge = 25
	}
	return m.Act(t.Context(), s, method.Step{File: file})
}

var profileNames = []string{"plain", "yoti"}

// No metadata of a picture leaves the service, by any profile.
func TestEstimator_Metadata(t *testing.T) {
	for _, profile := range profileNames {
		w := newFixture(t, profile)
		comment := append([]byte{0xff, 0xd8, 0xff, 0xfe, 0, 8}, "CANARY"...)
		picture := append(append(comment, still()[2:]...), "CANARY"...)
		if _, err := act(t, w.open(t), method.Session{}, picture); err != nil {
			t.Fatal(err)
		}
		if got := w.estimator.Requests()[0].Picture; got != sha256.Sum256(still()) {
			t.Errorf("contract 37: %s: the estimator gets another picture than the cleaned one", profile)
		}
	}
}

// TestThreeWays holds each profile to contract 37: what each estimate means.
func TestThreeWays(t *testing.T) {
	approved := method.Decision{Verdict: method.Approved, Age: 25}
	rejected := method.Decision{Verdict: method.Rejected, Setting: "floor"}
	settings := map[method.Reason]string{method.Below: "challenge_age"}
	failed := func(r method.Reason) method.Decision {
		return method.Decision{Verdict: method.AttemptFailed, Reason: r, Setting: settings[r]}
	}
	deviates := method.Decision{Verdict: method.AttemptFailed, Reason: method.Unsure, Setting: "deviation"}
	for _, c := range []struct {
		rule     string
		settings string // of the method
		stricter string // of the integration
		answer   estimatortest.Answer
		want     method.Decision
	}{
		{"over the challenge age", `{}`, ``, estimatortest.Answer{Age: 31.5}, approved},
		{"at the challenge age", `{}`, ``, estimatortest.Answer{Age: 25}, approved},
		{"just below the challenge age", `{}`, ``, estimatortest.Answer{Age: 24.999}, failed(method.Below)},
		{"far below, and no floor", `{}`, ``, estimatortest.Answer{Age: 5}, failed(method.Below)},
		{"below the floor", `{"floor":18}`, ``, estimatortest.Answer{Age: 17.9}, rejected},
		{"at the floor", `{"floor":18}`, ``, estimatortest.Answer{Age: 18}, failed(method.Below)},
		{"a floor above the challenge age", `{"floor":30}`, ``, estimatortest.Answer{Age: 26}, approved},
		{"the integration raises the floor", `{}`, `{"floor":20}`, estimatortest.Answer{Age: 19}, rejected},
		{"a fake", `{}`, ``, estimatortest.Answer{Age: 40, Fake: true}, failed(method.NotLive)},
		{"a fake below the floor is no final no", `{"floor":18}`, ``, estimatortest.Answer{Age: 9, Fake: true},
			failed(method.NotLive)},
		{"no face", `{}`, ``, estimatortest.Answer{NoFace: true}, failed(method.NoFace)},
		{"a deviation over six", `{}`, ``, estimatortest.Answer{Age: 60, Deviation: 6.1}, deviates},
		{"a deviation of six", `{}`, ``, estimatortest.Answer{Age: 60, Deviation: 6}, approved},
		{"an uncertain estimate below the floor is no final no", `{"floor":18}`, ``,
			estimatortest.Answer{Age: 9, Deviation: 7}, deviates},
		{"another deviation", `{"deviation":3}`, ``, estimatortest.Answer{Age: 60, Deviation: 3.5},
			deviates},
		{"the integration lowers the deviation", `{"deviation":3}`, `{"deviation":2}`,
			estimatortest.Answer{Age: 60, Deviation: 2.5}, deviates},
	} {
		for _, profile := range profileNames {
			t.Run(c.rule+", "+profile, func(t *testing.T) {
				w := newFixture(t, profile)
				w.set(t, c.settings)
				m := w.open(t)
				w.estimator.Answer(c.answer)
				got, err := act(t, m, method.Session{Settings: json.RawMessage(c.stricter)}, still())
				coretest.Must(t, err)
				if got.Verdict != c.want.Verdict || got.Reason != c.want.Reason || got.State != nil ||
					got.Leave != nil || got.Age != c.want.Age || got.Setting != c.want.Setting {
					t.Errorf("got %+v, want %+v", got, c.want)
				}
				requests := w.estimator.Requests()
				if len(requests) != 1 || requests[0].Picture != sha256.Sum256(still()) ||
					w.estimator.Rejected() != 0 {
					t.Errorf("want the picture sent once, unchanged; got %d requests", len(requests))
				}
			})
		}
	}
}

func TestYotiCannotTellWhetherAPersonIsLive(t *testing.T) {
	w := newFixture(t, "yoti")
	w.estimator.Answer(estimatortest.Answer{Undetermined: true})
	d, err := act(t, w.open(t), method.Session{}, still())
	if err != nil || d.Verdict != method.AttemptFailed || d.Reason != method.Unsure {
		t.Errorf("got %+v, %v", d, err)
	}
}

func TestYotiSaysWhatIsWrongWithAPicture(t *testing.T) {
	for code, want := range map[string]method.Reason{
		"FACE_NOT_FOUND": method.NoFace, "MULTIPLE_FACES": method.NoFace, "IMAGE_TOO_DARK": method.Unsure,
	} {
		w := newFixture(t, "yoti")
		w.estimator.Answer(estimatortest.Answer{Status: 400, Body: `{"error_code":"` + code + `"}`})
		if d, err := act(t, w.open(t), method.Session{}, still()); err != nil || d.Reason != want {
			t.Errorf("%s: got %+v, %v; want %s", code, d, err, want)
		}
		w.estimator.Answer(estimatortest.Answer{Status: 500, Body: `{"error_code":"` + code + `"}`})
		if d, err := act(t, w.open(t), method.Session{}, still()); err == nil {
			t.Errorf("%s with status 500: got %+v", code, d)
		}
	}
}

// TestBadAnswersDecideNothing: 503, and no attempt is counted.
func TestBadAnswersDecideNothing(t *testing.T) {
	answers := map[string]string{ // by profile, with %s for the age and %s for the deviation
		"plain": `{"age":%s,"deviation":%s,"live":true}`,
		"yoti":  `{"antispoofing":{"prediction":"real"},"age":{"age":%s,"st_dev":%s}}`,
	}
	type row struct {
		rule   string
		answer estimatortest.Answer
		reason string
	}
	body := func(text string) estimatortest.Answer { return estimatortest.Answer{Body: text} }
	for _, profile := range profileNames {
		with := func(age, deviation string) estimatortest.Answer {
			return body(fmt.Sprintf(answers[profile], age, deviation))
		}
		rows := []row{
			{"status 401", estimatortest.Answer{Status: 401}, "status"},
			{"status 403", estimatortest.Answer{Status: 403}, "status"},
			{"status 429", estimatortest.Answer{Status: 429}, "status"},
			{"status 500", estimatortest.Answer{Status: 500}, "status"},
			{"status 500 with an approval", estimatortest.Answer{Status: 500, Body: with("40", "1").Body},
				"status"},
			{"status 400", estimatortest.Answer{Status: 400}, "status"},
			{"status 201 with an approval", estimatortest.Answer{Status: 201, Body: with("40", "1").Body},
				"status"},
			{"a redirect", estimatortest.Answer{Status: 304}, "status"},
			{"a timeout", estimatortest.Answer{Hang: true}, host.FetchTimeout},
			{"a cut answer", estimatortest.Answer{Age: 40, Cut: true}, host.FetchMalformed},
			{"cut JSON", body(with("40", "1").Body[:30]), "answer_not_json"},
			{"HTML", body("<html>age 40</html>"), "answer_not_json"},
			{"a list", body("[" + with("40", "1").Body + "]"), "answer_not_json"},
			{"the age twice", body(strings.Replace(with("40", "1").Body, `"age":40`, `"age":40,"age":1`, 1)),
				"age_out_of_range"},
			{"more than 16 KiB", body(with("40", "1").Body + strings.Repeat(" ", 16<<10)),
				"answer_too_large"},
			{"age 0", with("0", "1"), "age_out_of_range"},
			{"a negative age", with("-40", "1"), "age_out_of_range"},
			{"age 1e308", with("1e308", "1"), "age_out_of_range"},
			{"age 1e999", with("1e999", "1"), "age_out_of_range"},
			{"age NaN", with("NaN", "1"), "answer_not_json"},
			{"age 151", with("151", "1"), "age_out_of_range"},
			{"the age as a text", with(`"40"`, "1"), "age_out_of_range"},
			{"age null", with("null", "1"), "age_missing"},
			{"deviation 0", with("40", "0"), "deviation_out_of_range"},
			{"a negative deviation", with("40", "-1"), "deviation_out_of_range"},
			{"deviation 1e308", with("40", "1e308"), "deviation_out_of_range"},
			{"deviation NaN", with("40", "NaN"), "answer_not_json"},
			{"the deviation as a text", with("40", `"1"`), "deviation_out_of_range"},
			{"deviation null", with("40", "null"), "deviation_missing"},
		}
		if profile == "plain" {
			rows = append(rows,
				row{"no age", body(`{"deviation":1,"live":true}`), "age_missing"},
				row{"no deviation", body(`{"age":40,"live":true}`), "deviation_missing"},
				row{"no liveness", body(`{"age":40,"deviation":1}`), "liveness_unknown"},
				row{"liveness as a text", body(`{"age":40,"deviation":1,"live":"true"}`), "liveness_unknown"},
				row{"face as a number", body(`{"face":1,"age":40,"deviation":1,"live":true}`), "face_unknown"},
				row{"an empty object", body(`{}`), "liveness_unknown"})
		} else {
			rows = append(rows,
				row{"an unknown prediction", body(`{"antispoofing":{"prediction":"Real"},"age":{"age":40,"st_dev":1}}`),
					"liveness_unknown"},
				row{"no prediction", body(`{"age":{"age":40,"st_dev":1}}`), "liveness_unknown"},
				row{"a prediction that is no object", body(`{"antispoofing":"real","age":{"age":40,"st_dev":1}}`),
					"liveness_unknown"},
				row{"no age", body(`{"antispoofing":{"prediction":"real"}}`), "age_missing"},
				row{"an age that is a number", body(`{"antispoofing":{"prediction":"real"},"age":40}`), "age_missing"},
				row{"no deviation", body(`{"antispoofing":{"prediction":"real"},"age":{"age":40}}`), "deviation_missing"},
				row{"an error without a code", estimatortest.Answer{Status: 400, Body: `{}`}, "status"},
				row{"an error of the request", estimatortest.Answer{Status: 400,
					Body: `{"error_code":"INVALID_APP_ID"}`}, "status"})
		}
		for _, c := range rows {
			t.Run(profile+": "+c.rule, func(t *testing.T) {
				w := newFixture(t, profile)
				m := w.open(t)
				w.estimator.Answer(c.answer)
				d, err := act(t, m, method.Session{}, still())
				if err == nil || errors.Is(err, method.ErrStep) {
					t.Fatalf("got %+v, %v, want an error that lets the user try again", d, err)
				}
				if reason := method.ReasonOf(err); reason != c.reason {
					t.Errorf("contract 48: got the reason %q of %v, want %q", reason, err, c.reason)
				}
				for _, secret := range []string{token, sdkID, "nonce=", "40"} {
					if strings.Contains(strings.ReplaceAll(err.Error(), "status 40", ""), secret) {
						t.Errorf("contract 13: the error %q has %q in it", err, secret)
					}
				}
			})
		}
	}
}

// TestAct_InvalidPicture: 400, and the estimator is not asked.
func TestAct_InvalidPicture(t *testing.T) {
	for _, c := range []struct {
		rule string
		file []byte
	}{
		{"no file", nil},
		{"a file of 0 bytes", []byte{}},
		{"a GIF", []byte("GIF89a")},
		{"HTML", []byte("<html>")},
		{"1 MiB and one byte", append(append([]byte(nil), still()...), make([]byte, method.MaxFile)...)},
	} {
		w := newFixture(t, "plain")
		_, err := act(t, w.open(t), method.Session{}, c.file)
		if !errors.As(err, new(*steperror.File)) || len(w.fetched) != 0 {
			t.Errorf("%s: got %v and %d requests, want a steperror.File and none", c.rule, err,
				len(w.fetched))
		}
	}
}

func TestAct_BrowserVerdict(t *testing.T) {
	w := newFixture(t, "plain")
	w.estimator.Answer(estimatortest.Answer{Age: 12})
	m := w.open(t)
	form := url.Values{"age": {"40"}, "live": {"true"}, "deviation": {"1"}, "outcome": {"approve"}}
	s := method.Session{Level: "L1", ChallengeAge: 25}
	d, err := m.Act(t.Context(), s, method.Step{File: still(), Form: form})
	if err != nil || d.Verdict != method.AttemptFailed || d.Reason != method.Below {
		t.Errorf("got %+v, %v", d, err)
	}
	if _, err := m.Act(t.Context(), s, method.Step{Form: form}); !errors.As(err, new(*steperror.File)) {
		t.Errorf("a form without a picture: %v", err)
	}
}

// TestRequests compares the requests with the estimators' interfaces.
func TestRequests(t *testing.T) {
	w := newFixture(t, "plain")
	_, err := act(t, w.open(t), method.Session{}, still())
	coretest.Must(t, err)
	r := w.fetched[0]
	if r.Method != "POST" || r.Timeout != 10*time.Second || !bytes.Equal(r.Body, still()) ||
		r.Header["Authorization"] != "Bearer "+token || r.Header["Content-Type"] != "image/jpeg" {
		t.Errorf("plain: %s %s %v, timeout %v", r.Method, r.URL, r.Header, r.Timeout)
	}

	w = newFixture(t, "yoti")
	m := w.open(t)
	for range 2 {
		_, err := act(t, m, method.Session{}, still())
		coretest.Must(t, err)
	}
	first, second := w.fetched[0], w.fetched[1]
	u, err := url.Parse(first.URL)
	coretest.Must(t, err)
	if u.Path != "/ai/v1/age-antispoofing" || u.Query().Get("timestamp") != "1795348800" ||
		first.Method != "POST" || first.Timeout != 10*time.Second || first.Header["X-Yoti-Auth-Id"] != sdkID {
		t.Errorf("yoti: %s %s %v, timeout %v", first.Method, first.URL, first.Header, first.Timeout)
	}
	if first.URL == second.URL {
		t.Error("a nonce came twice")
	}
	if w.estimator.Rejected() != 0 {
		t.Error("the estimator has rejected a request")
	}

	w = newFixture(t, "yoti")
	w.set(t, `{"timestamp":"ms"}`)
	if _, err := act(t, w.open(t), method.Session{}, still()); err == nil {
		t.Error("milliseconds are taken for seconds")
	}
	if !strings.Contains(w.fetched[0].URL, "&timestamp=1795348800000") {
		t.Errorf("milliseconds: %s", w.fetched[0].URL)
	}
}

// TestSpoiledRequestsAreRejected: the estimator says 401, and nothing is decided.
func TestSpoiledRequestsAreRejected(t *testing.T) {
	for _, c := range []struct {
		rule  string
		spoil func(w *fixture)
	}{
		{"a clock that is six minutes late", func(w *fixture) { w.now = noon.Add(-6 * time.Minute) }},
		{"a clock that is six minutes early", func(w *fixture) { w.now = noon.Add(6 * time.Minute) }},
		{"a body that was changed", func(w *fixture) {
			w.change = func(r *host.FetchRequest) { r.Body = append(bytes.Clone(r.Body), ' ') }
		}},
		{"a timestamp that was changed", func(w *fixture) {
			w.change = func(r *host.FetchRequest) { r.URL = strings.Replace(r.URL, "=17", "=017", 1) }
		}},
		{"another application", func(w *fixture) {
			w.change = func(r *host.FetchRequest) {
				r.Header["X-Yoti-Auth-Id"] = strings.Replace(sdkID, "b", "c", 1)
			}
		}},
		{"no signature", func(w *fixture) {
			w.change = func(r *host.FetchRequest) { delete(r.Header, "X-Yoti-Auth-Digest") }
		}},
		{"another key", func(w *fixture) {
			w.host.Sign = func(context.Context, string, string, []byte) ([]byte, error) {
				return make([]byte, 256),
					nil
			}
		}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			w := newFixture(t, "yoti")
			c.spoil(w)
			_, err := act(t, w.open(t), method.Session{}, still())
			if err == nil || !strings.Contains(err.Error(), "status 401") || w.estimator.Rejected() != 1 {
				t.Errorf("got %v, want status 401", err)
			}
		})
	}
	t.Run("a nonce that came before", func(t *testing.T) {
		w := newFixture(t, "yoti")
		m := w.open(t)
		_, err := act(t, m, method.Session{}, still())
		coretest.Must(t, err)
		if _, err := w.Fetch(t.Context(), w.fetched[0]); err != nil || w.estimator.Rejected() != 1 {
			t.Errorf("the same request came through again: %v", err)
		}
	})
}

// The cause of a failed fetch may quote the address, which has the nonce in it.
func TestErrorsHideTheAddress(t *testing.T) {
	w := newFixture(t, "yoti")
	m := w.open(t)
	for _, cause := range []error{
		&host.FetchError{Reason: host.FetchTLS, Err: errors.New("canary?nonce=1")}, errors.New("canary"),
	} {
		w.fetchErr = cause
		_, err := act(t, m, method.Session{}, still())
		if err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("got %v", err)
		}
		var failed *host.FetchError
		if errors.As(cause, &failed) && !(errors.As(err, &failed) && failed.Reason == host.FetchTLS) {
			t.Errorf("the reason is lost in %v", err)
		}
	}
}

func TestSigningThatFailsSendsNothing(t *testing.T) {
	w := newFixture(t, "yoti")
	w.host.Sign = func(context.Context, string, string, []byte) ([]byte, error) {
		return nil,
			errors.New("no such key")
	}
	if _, err := act(t, w.open(t), method.Session{}, still()); err == nil || len(w.fetched) > 0 {
		t.Errorf("got %v and %d requests", err, len(w.fetched))
	}
	w.host.Sign = nil
	if _, err := estimator.Kind.Open(w.config, w.host); err == nil {
		t.Error("a method that must sign opens without a signer")
	}
}

func TestAct_NoChallengeAge(t *testing.T) {
	w := newFixture(t, "plain")
	d, err := w.open(t).Act(t.Context(), method.Session{Level: "L1"}, method.Step{File: still()})
	if err == nil || len(w.fetched) > 0 {
		t.Errorf("got %+v, %v", d, err)
	}
}

func TestBegin_Camera(t *testing.T) {
	m := newFixture(t, "plain").open(t)
	coretest.Must(t, m.Begin(t.Context(), method.Session{}))
	if v := m.Show(method.Session{}, nil); !v.Camera || v.Sandbox || v.Waiting || len(v.Choices) > 0 {
		t.Errorf("the page is %+v", v)
	}
	if estimator.Kind.Level != "L1" || estimator.Kind.Sandbox {
		t.Errorf("contract 31: the kind is %+v", estimator.Kind)
	}
}

func TestSettingsThatAreWrong(t *testing.T) {
	const plain = `"profile":"plain","url":"https://ages.example/estimate"`
	const yoti = `"profile":"yoti","sdk_id":"` + sdkID + `"`
	bearer := map[string]string{"token": token}
	for _, c := range []struct {
		rule, settings string
		secrets        map[string]string
		keys           []string
		member         string // of the one problem; "": none
	}{
		{"plain", `{` + plain + `}`, bearer, nil, ""},
		{"plain with all", `{` + plain + `,"deviation":20,"floor":0}`, bearer, nil, ""},
		{"yoti", `{` + yoti + `}`, nil, []string{"private_key"}, ""},
		{"yoti with all", `{` + yoti +
			`,"url":"https://y.example/ai/v1","timestamp":"s","deviation":0.5,"floor":100}`, nil,
			[]string{"private_key"}, ""},
		{"none", ``, nil, nil, "profile"},
		{"no object", `[]`, nil, nil, "settings"},
		{"no profile", `{}`, bearer, nil, "profile"},
		{"an unknown profile", `{"profile":"Yoti"}`, nil, nil, "profile"},
		{"a member twice", `{` + plain + `,"floor":1,"floor":2}`, bearer, nil, "settings"},
		{"an unknown member", `{` + plain + `,"flor":1}`, bearer, nil, "flor"},
		{"a member of another profile", `{` + plain + `,"sdk_id":"x"}`, bearer, nil, "sdk_id"},
		{"plain without an address", `{"profile":"plain"}`, bearer, nil, "url"},
		{"http", `{"profile":"plain","url":"http://ages.example/"}`, bearer, nil, "url"},
		{"http to loopback outside of dev", `{"profile":"plain","url":"http://127.0.0.1/"}`, bearer, nil, "url"},
		{"an address with a user", `{"profile":"plain","url":"https://a:b@ages.example/"}`, bearer, nil, "url"},
		{"an address with a fragment", `{"profile":"plain","url":"https://ages.example/#a"}`, bearer, nil, "url"},
		{"an address that is a number", `{` + yoti + `,"url":1}`, nil, []string{"private_key"}, "url"},
		{"yoti with a query", `{` + yoti + `,"url":"https://y.example/?a"}`, nil, []string{"private_key"}, "url"},
		{"no token", `{` + plain + `}`, nil, nil, "token_file"},
		{"a token with a line feed", `{` + plain + `}`, map[string]string{"token": "a\nb"}, nil, "token_file"},
		{"another secret", `{` + plain + `}`, map[string]string{"token": "a", "client_secret": "b"}, nil,
			"client_secret_file"},
		{"plain with a key", `{` + plain + `}`, bearer, []string{"private_key"}, "private_key_file"},
		{"yoti with a token", `{` + yoti + `}`, bearer, []string{"private_key"}, "token_file"},
		{"yoti without a key", `{` + yoti + `}`, nil, nil, "private_key_file"},
		{"yoti with another key", `{` + yoti + `}`, nil, []string{"client_key"}, "private_key_file"},
		{"yoti without an id", `{"profile":"yoti"}`, nil, []string{"private_key"}, "sdk_id"},
		{"an id that is no UUID", `{"profile":"yoti","sdk_id":"x"}`, nil, []string{"private_key"}, "sdk_id"},
		{"another unit", `{` + yoti + `,"timestamp":"us"}`, nil, []string{"private_key"}, "timestamp"},
		{"deviation 0", `{` + plain + `,"deviation":0}`, bearer, nil, "deviation"},
		{"a deviation above 20", `{` + plain + `,"deviation":20.1}`, bearer, nil, "deviation"},
		{"a deviation that is a text", `{` + plain + `,"deviation":"6"}`, bearer, nil, "deviation"},
		{"a negative floor", `{` + plain + `,"floor":-1}`, bearer, nil, "floor"},
		{"a floor above 100", `{` + plain + `,"floor":1e308}`, bearer, nil, "floor"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			config := method.Config{Name: "camera", Kind: "estimator", Settings: json.RawMessage(c.settings),
				Secrets: c.secrets, Keys: c.keys}
			wrong := estimator.Kind.Check(config)
			_, err := estimator.Kind.Open(config, method.Host{Sign: newFixture(t, "yoti").host.Sign})
			if (err != nil) != (c.member != "") {
				t.Errorf("Open says %v", err)
			}
			if c.member == "" {
				if len(wrong) > 0 {
					t.Errorf("got %v", wrong)
				}
				return
			}
			if len(wrong) != 1 || wrong[0].Member != c.member {
				t.Fatalf("got %v, want one problem of %s", wrong, c.member)
			}
			if strings.Contains(wrong.Error(), token) {
				t.Error("contract 13: the problem shows a secret")
			}
		})
	}
}

func TestNarrow_OnlyStricter(t *testing.T) {
	config := method.Config{Name: "camera", Kind: "estimator", Secrets: map[string]string{"token": token},
		Settings: json.RawMessage(`{"profile":"plain","url":"https://ages.example/","deviation":5,"floor":16}`)}
	for _, c := range []struct{ rule, settings, member string }{
		{"nothing", ``, ""},
		{"an empty object", `{}`, ""},
		{"the same", `{"deviation":5,"floor":16}`, ""},
		{"stricter", `{"deviation":4.5,"floor":18}`, ""},
		{"a higher deviation", `{"deviation":5.1}`, "deviation"},
		{"a lower floor", `{"floor":15}`, "floor"},
		{"no floor", `{"floor":0}`, "floor"},
		{"deviation 0", `{"deviation":0}`, "deviation"},
		{"a text", `{"floor":"18"}`, "floor"},
		{"the estimator's address", `{"url":"https://evil.example/"}`, "url"},
		{"the profile", `{"profile":"plain"}`, "profile"},
		{"no object", `1`, "settings"},
	} {
		wrong := estimator.Kind.Narrow(config, json.RawMessage(c.settings))
		if c.member == "" && len(wrong) > 0 || c.member != "" &&
			(len(wrong) != 1 || wrong[0].Member != c.member) {
			t.Errorf("%s: got %v, want a problem of %q", c.rule, wrong, c.member)
		}
	}
}

// FuzzAnswer: no answer approves without an age at or over the challenge age, and none makes it panic.
func FuzzAnswer(f *testing.F) {
	for _, profile := range []bool{false, true} {
		f.Add(profile, 200, []byte(`{"age":40,"deviation":1,"live":true}`))
		f.Add(profile, 200, []byte(`{"antispoofing":{"prediction":"real"},"age":{"age":24,"st_dev":3.5}}`))
		f.Add(profile, 400, []byte(`{"error_code":"FACE_NOT_FOUND"}`))
	}
	open := func(settings string, secrets map[string]string, keys []string,
		fetch host.Fetcher) method.Method {
		m, err := estimator.Kind.Open(method.Config{Settings: json.RawMessage(settings), Secrets: secrets,
			Keys: keys},
			method.Host{Now: func() time.Time { return noon }, Random: &coretest.Random{}, Fetch: fetch,
				Sign: func(context.Context, string, string, []byte) ([]byte, error) {
					return []byte("s"),
						nil
				}})
		if err != nil {
			f.Fatal(err)
		}
		return m
	}
	f.Fuzz(func(t *testing.T, isYoti bool, status int, body []byte) {
		fetch := constant{host.FetchResponse{Status: status, Body: body}}
		m := open(`{"profile":"plain","url":"https://ages.example/"}`, map[string]string{"token": token}, nil,
			fetch)
		if isYoti {
			m = open(`{"profile":"yoti","sdk_id":"`+sdkID+`"}`, nil, []string{"private_key"}, fetch)
		}
		d, err := act(t, m, method.Session{}, still())
		if err != nil && d.Verdict != method.Unclassified {
			t.Fatalf("%q: an error comes with %+v", body, d)
		}
		if d.Verdict != method.Approved {
			return
		}
		var answer map[string]any
		if err := json.Unmarshal(body, &answer); err != nil || status != 200 {
			t.Fatalf("status %d with %q approves", status, body)
		}
		age, deviation := answer["age"], answer["deviation"]
		if isYoti {
			inner, _ := age.(map[string]any)
			age, deviation = inner["age"], inner["st_dev"]
		}
		years, _ := age.(float64)
		if within, ok := deviation.(float64); years < 25 || !ok || within > 6 {
			t.Fatalf("%q approves", body)
		}
	})
}

type constant struct{ resp host.FetchResponse }

func (c constant) Fetch(context.Context, host.FetchRequest) (host.FetchResponse, error) {
	return c.resp, nil
}
