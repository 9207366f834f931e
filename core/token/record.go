package token

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/verge-id/verge/core/host"
)

// What the store holds as JSON ends in a MAC of its own, which binds it to the
// name under which it lies (contract 19):
//
//	{"s":"completed","t":1795212600123,"m":"<27 base64url digits>"}
//
// The MAC is over the name, a zero byte, and the object up to the comma before
// "m". So who can write to the store can delete an item or put an older one
// back, and can neither make one nor move it. An earlier release, which knows no
// "m", reads such an object all the same.

const (
	recordOpen  = `,"m":"`
	recordClose = `"}`
)

var recordTail = len(recordOpen) + text.EncodedLen(host.MACSize) + len(recordClose)

// ErrRecord says that the store holds something that no instance of this fleet
// wrote there.
var ErrRecord = errors.New("token: the store's item is not authentic")

// SignRecord returns a JSON object, which is not empty, with its MAC in it.
func SignRecord(s host.Sealer, name string, object []byte) ([]byte, error) {
	body, ok := bytes.CutSuffix(object, []byte("}"))
	if !ok || len(body) < 2 {
		return nil, errors.New("token: only a JSON object with members is signed")
	}
	mac, err := s.MAC(Record, recordMessage(name, body))
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(body)+recordTail)
	out = append(append(out, body...), recordOpen...)
	return append(text.AppendEncode(out, mac), recordClose...), nil
}

// CheckRecord reports until when the key that signed an object, which lies under
// the name, was in use: the caller holds that against the object's own date
// (host.Dated). An object without a MAC is one of an earlier release, and until
// is when the last of those can have been written. The error is ErrRecord, or
// host.ErrKeyAwaited.
func CheckRecord(s host.Sealer, name string, value []byte) (until time.Time, err error) {
	body, mac := splitRecord(value)
	until, err = s.CheckMAC(Record, recordMessage(name, body), mac)
	if errors.Is(err, host.ErrNotAuthentic) {
		err = fmt.Errorf("%w: %s", ErrRecord, name)
	}
	return until, err
}

// RecordedWith returns the id of the key that signed an object, "" for one
// without a MAC.
func RecordedWith(value []byte) string {
	_, mac := splitRecord(value)
	return MACedWith(mac)
}

// splitRecord returns what is MACed and the MAC, nil if there is none. Only the
// form that SignRecord writes counts as one.
func splitRecord(value []byte) (body, mac []byte) {
	at := len(value) - recordTail
	if at < 2 || !bytes.HasPrefix(value[at:], []byte(recordOpen)) || !bytes.HasSuffix(value, []byte(recordClose)) {
		return value, nil
	}
	mac, err := text.DecodeString(string(value[at+len(recordOpen) : len(value)-len(recordClose)]))
	if err != nil || len(mac) != host.MACSize {
		return value, nil
	}
	return value[:at], mac
}

func recordMessage(name string, body []byte) []byte {
	b := make([]byte, 0, len(name)+1+len(body))
	return append(append(append(b, name...), 0), body...)
}

// RecordsUnsigned reports whether other instances may still be of a release that
// signs no records: no bound key of the ring has begun to seal. What such a
// release could not read must not be written then.
func RecordsUnsigned(s host.Sealer, now time.Time) bool {
	until, err := s.CheckMAC(Record, nil, nil)
	return err == nil && (until.IsZero() || now.Before(until))
}
