// Package estimatortest provides a scripted age estimator. A test, or a demo, sets its response to a picture;
// it rejects invalid requests like real estimators.
//
// An Estimator is an http.Handler. In a test, use [Serve], which also gives it an address. Its response is an
// [Answer], which can be changed at any time.
//
// It implements the two profiles of the kind estimator. At PlainPath it accepts a JPEG with a bearer token.
// At YotiPath it implements Yoti's API, and checks the signature, the path, the body, the clock and that no
// nonce is repeated. It does not analyse pictures: the Answer decides.
package estimatortest

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"image/jpeg"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Where the profiles are served. For the profile plain, the setting url ends in PlainPath. For yoti it ends
// in YotiPath, and requests go to paths below it.
const (
	PlainPath = "/estimate"
	YotiPath  = "/ai/v1"
)

// Config contains the credentials that an Estimator accepts.
type Config struct {
	// Token is the bearer token of the profile plain. Empty: no token is accepted.
	Token string

	// SDKID and Key are the credentials of an application for the profile yoti. Nil: no application is
	// registered.
	SDKID string
	Key   *rsa.PublicKey

	// Millis means that timestamps are in milliseconds. False: in seconds.
	Millis bool

	// Now is the estimator's clock. Nil: time.Now.
	Now func() time.Time
}

// Answer is the Estimator's result for a picture. The zero Answer is a live person of about 30.
type Answer struct {
	Age       float64 // 0: 30
	Deviation float64 // 0: 2

	Fake         bool // the picture is of no live person
	Undetermined bool // whether it is cannot be said; profile yoti only
	NoFace       bool // there is no face, or more than one

	Status int    // of an error; 0: no error
	Body   string // sent unchanged instead of the fields above
	Cut    bool   // the connection breaks in the middle of the body
	Hang   bool   // there is no answer until the caller has gone
}

// request is the record of an accepted request. It has only a hash of the picture.
type request struct {
	Path    string
	Picture [sha256.Size]byte
}

// Estimator is the handler. Its methods may be called concurrently.
type Estimator struct {
	config Config

	mu       sync.Mutex
	answer   Answer
	requests []request
	rejected int
	nonces   map[string]time.Time
}

// New returns an Estimator that gives the zero Answer.
func New(c Config) *Estimator {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Estimator{config: c, nonces: map[string]time.Time{}}
}

// Answer sets the response to all later requests.
func (e *Estimator) Answer(a Answer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = a
}

// Requests returns the requests that were let through, in their order.
func (e *Estimator) Requests() []request {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]request(nil), e.requests...)
}

// Rejected returns how many requests were not let through.
func (e *Estimator) Rejected() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.rejected
}

// maxBody is the maximum size of a request in bytes: 1 MiB of picture in base64, and some more.
const maxBody = 2 << 20

// fault is an error as Yoti words it.
type fault struct {
	status int
	code   string
}

// ServeHTTP implements http.Handler.
func (e *Estimator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return // the caller has gone
	}
	var picture []byte
	var wrong *fault
	profile, isYoti := yotiAnswer, true
	switch {
	case r.Method != http.MethodPost:
		wrong = &fault{http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED"}
	case len(body) > maxBody:
		wrong = &fault{http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE"}
	case r.URL.Path == PlainPath:
		profile, isYoti = plainAnswer, false
		picture, wrong = e.readPlain(r, body)
	case r.URL.Path == YotiPath+"/age-antispoofing":
		picture, wrong = e.readYoti(r, body)
	default:
		wrong = &fault{http.StatusNotFound, "NOT_FOUND"}
	}
	if wrong == nil {
		if _, err := jpeg.DecodeConfig(bytes.NewReader(picture)); err != nil {
			wrong = &fault{http.StatusBadRequest, "UNSUPPORTED_IMAGE_FORMAT"}
		}
	}
	e.mu.Lock()
	a := e.answer
	if wrong != nil {
		e.rejected++
	} else {
		e.requests = append(e.requests, request{r.URL.Path, sha256.Sum256(picture)})
	}
	e.mu.Unlock()

	switch {
	case wrong != nil:
		a = Answer{Status: wrong.status, Body: wrong.body()}
	case a.Hang:
		<-r.Context().Done()
		return
	case a.Body == "" && a.Status != 0:
		a.Body = (&fault{a.Status, "SIMULATED"}).body()
	case a.Body == "" && isYoti && a.NoFace:
		a = Answer{Status: http.StatusBadRequest, Body: (&fault{code: "FACE_NOT_FOUND"}).body(), Cut: a.Cut}
	case a.Body == "":
		a.Body = profile(a)
	}
	w.Header().Set("Content-Type", "application/json")
	if a.Cut {
		w.Header().Set("Content-Length", strconv.Itoa(len(a.Body)))
		a.Body = a.Body[:len(a.Body)/2]
	}
	if a.Status != 0 {
		w.WriteHeader(a.Status)
	}
	_, _ = io.WriteString(w, a.Body) // the caller may have gone
}

func (f *fault) body() string {
	return encode(map[string]string{"error_code": f.code, "error_message": "this estimator is simulated"})
}

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps, texts, booleans and finite numbers alone
	}
	return string(text)
}

func (a Answer) numbers() (age, deviation float64) {
	age, deviation = a.Age, a.Deviation
	age = cmp.Or(age, 30)
	deviation = cmp.Or(deviation, 2)
	return age, deviation
}

// readPlain checks a request of the profile plain and returns its picture.
func (e *Estimator) readPlain(r *http.Request, body []byte) ([]byte, *fault) {
	if e.config.Token == "" || r.Header.Get("Authorization") != "Bearer "+e.config.Token {
		return nil, &fault{http.StatusUnauthorized, "INVALID_TOKEN"}
	}
	if r.Header.Get("Content-Type") != "image/jpeg" {
		return nil, &fault{http.StatusUnsupportedMediaType, "UNSUPPORTED_IMAGE_FORMAT"}
	}
	return body, nil
}

func plainAnswer(a Answer) string {
	if a.NoFace {
		return encode(map[string]any{"face": false})
	}
	age, deviation := a.numbers()
	return encode(map[string]any{"age": age, "deviation": deviation, "live": !a.Fake})
}

// maxSkew is how far a request's timestamp may be from the estimator's clock.
const maxSkew = 5 * time.Minute

// readYoti checks a request of the profile yoti and returns its picture.
func (e *Estimator) readYoti(r *http.Request, body []byte) ([]byte, *fault) {
	unauthorized := func(code string) ([]byte, *fault) { return nil, &fault{http.StatusUnauthorized, code} }
	if e.config.Key == nil || r.Header.Get("X-Yoti-Auth-Id") != e.config.SDKID {
		return unauthorized("INVALID_X_YOTI_AUTH_ID")
	}
	signature, err := base64.StdEncoding.DecodeString(r.Header.Get("X-Yoti-Auth-Digest"))
	if err != nil || len(signature) == 0 {
		return unauthorized("INVALID_YOTI_AUTH_DIGEST")
	}
	query := r.URL.Query()
	nonce := query.Get("nonce")
	if uuid.Validate(nonce) != nil || len(nonce) != 36 {
		return unauthorized("INVALID_NONCE")
	}
	stamp, err := strconv.ParseInt(query.Get("timestamp"), 10, 64)
	if err != nil {
		return unauthorized("INVALID_TIMESTAMP")
	}
	at := time.Unix(stamp, 0)
	if e.config.Millis {
		at = time.UnixMilli(stamp)
	}
	now := e.config.Now()
	if at.Before(now.Add(-maxSkew)) || at.After(now.Add(maxSkew)) {
		return unauthorized("INVALID_TIMESTAMP")
	}
	signed := r.Method + "&" + strings.TrimPrefix(r.URL.Path, YotiPath) + "?" + r.URL.RawQuery + "&" +
		base64.StdEncoding.EncodeToString(body)
	digest := sha256.Sum256([]byte(signed))
	if rsa.VerifyPKCS1v15(e.config.Key, crypto.SHA256, digest[:], signature) != nil {
		return unauthorized("INVALID_SIGNATURE")
	}
	if !e.fresh(nonce, now) {
		return unauthorized("INVALID_NONCE")
	}
	if r.Header.Get("Content-Type") != "application/json" {
		return nil, &fault{http.StatusBadRequest, "INVALID_REQUEST_BODY"}
	}
	var request struct {
		Img string `json:"img"`
	}
	if json.Unmarshal(body, &request) != nil || request.Img == "" {
		return nil, &fault{http.StatusBadRequest, "INVALID_REQUEST_BODY"}
	}
	picture, err := base64.StdEncoding.DecodeString(request.Img)
	if err != nil {
		return nil, &fault{http.StatusBadRequest, "INVALID_B64_IMAGE"}
	}
	return picture, nil
}

// fresh remembers a nonce, and reports whether it is new. It forgets nonces whose timestamp would be rejected
// anyway.
func (e *Estimator) fresh(nonce string, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for old, at := range e.nonces {
		if now.Sub(at) > 2*maxSkew {
			delete(e.nonces, old)
		}
	}
	if _, used := e.nonces[nonce]; used {
		return false
	}
	e.nonces[nonce] = now
	return true
}

func yotiAnswer(a Answer) string {
	prediction := "real"
	if a.Fake {
		prediction = "fake"
	} else if a.Undetermined {
		prediction = "undetermined"
	}
	age, deviation := a.numbers()
	return encode(map[string]any{
		"antispoofing": map[string]any{"prediction": prediction},
		"age":          map[string]any{"age": age, "st_dev": deviation},
	})
}
