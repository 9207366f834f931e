package token

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/verge-id/verge/core/host"
)

// A JSON item in the store ends with its own MAC, which binds it to the name under which it is stored
// (contract 19):
//
//	{"s":"completed","t":1795212600123,"m":"<27 base64url digits>"}
//
// The MAC covers the name, a zero byte, and the object up to the comma before "m". So an attacker who can
// write to the store can delete an item or restore an older one, but can neither create nor move an item.
// An earlier release ignores "m" and reads such an object anyway.

const (
	recordOpen  = `,"m":"`
	recordClose = `"}`
)

var recordTail = len(recordOpen) + text.EncodedLen(host.MACSize) + len(recordClose)

// ErrRecord is returned for a stored item that no instance of this fleet wrote.
var ErrRecord = errors.New("token: the store's item is not authentic")

// errSuperseded is the error for a record that was signed with a key that no longer authenticates
// long-lived records. The record comes from a backup, or an attacker has created it with a leaked ring.
var errSuperseded = errors.New("an older key of the ring signed it, and since then everything " +
	"was signed again")

// SignRecord returns a JSON object with its MAC added. The object must have fields.
func SignRecord(s host.Sealer, name string, object []byte) ([]byte, error) {
	body, ok := bytes.CutSuffix(object, []byte("}"))
	if !ok || len(body) < 2 {
		return nil, errors.New("token: only a JSON object with members can be signed")
	}
	mac, err := s.MAC(recordMAC, recordMessage(name, body))
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(body)+recordTail)
	out = append(append(out, body...), recordOpen...)
	return append(text.AppendEncode(out, mac), recordClose...), nil
}

// CheckRecord checks an object that is stored under the name. It returns the time until which the key that
// signed it was in use. The caller compares that with the object's own date (host.ValidAt). An object
// without a MAC is from an earlier release, and until is the latest time when such an object can have been
// written. The error is ErrRecord or host.ErrKeyAwaited.
func CheckRecord(s host.Sealer, name string, value []byte) (until time.Time, err error) {
	body, mac := splitRecord(value)
	until, err = s.CheckMAC(recordMAC, recordMessage(name, body), mac)
	if errors.Is(err, host.ErrNotAuthentic) {
		err = fmt.Errorf("%w: %s", ErrRecord, name)
	}
	return until, err
}

// CheckLongLived is CheckRecord for long-lived records, which are signed again after each rotation of the
// ring. Once all of them are signed with a new key, a record that an older key has signed is no longer
// authentic: the error is then both ErrRecord and errSuperseded. Otherwise an attacker with a leaked ring
// could create such records, with a date from before the rotation, for as long as the old key is kept for
// old tokens.
func CheckLongLived(s host.Sealer, name string, value []byte) (until time.Time, err error) {
	until, err = CheckRecord(s, name, value)
	_, mac := splitRecord(value)
	if err != nil || until.IsZero() || mac == nil {
		return until, err
	}
	switch _, err := s.CheckMAC(superseded, nil, mac); {
	case err == nil:
		return until, fmt.Errorf("%w: %s: %w (key %s)", ErrRecord, name, errSuperseded, MACedWith(mac))
	case !errors.Is(err, host.ErrNotAuthentic):
		return until, err
	}
	return until, nil
}

// Rejection returns the reason, for the log, why CheckRecord or CheckLongLived rejected a record.
func Rejection(err error) string {
	if errors.Is(err, errSuperseded) {
		return "the store holds a record that an older key of the ring has signed, though " +
			"all records were signed again since: it comes from a backup, or was forged with a leaked " +
			"ring; it is ignored"
	}
	return "the store holds what this service did not write"
}

// ResignRecord returns a long-lived object under the name, signed again with the active key. If the object
// has a date, it is in the field at. The error is ErrRecord if CheckLongLived rejects the object, if it has
// no MAC, or if its key was no longer in use at that date. Otherwise an object that an attacker created
// with a leaked key, after it was replaced, would become fully valid.
func ResignRecord(s host.Sealer, name string, value []byte) ([]byte, error) {
	body, mac := splitRecord(value)
	if mac == nil {
		return nil, fmt.Errorf("%w: %s", ErrRecord, name)
	}
	until, err := CheckLongLived(s, name, value)
	if err != nil {
		return nil, err
	}
	var dated struct {
		At *time.Time `json:"at"`
	}
	if json.Unmarshal(value, &dated) != nil || dated.At != nil && !host.ValidAt(*dated.At, until) {
		return nil, fmt.Errorf("%w: %s", ErrRecord, name)
	}
	return SignRecord(s, name, append(bytes.Clone(body), '}'))
}

// RecordedWith returns the id of the key that signed an object, or "" if it has no MAC.
func RecordedWith(value []byte) string {
	_, mac := splitRecord(value)
	return MACedWith(mac)
}

// splitRecord returns the bytes that the MAC covers, and the MAC, or nil if it is missing. Only the form
// that SignRecord writes counts as a MAC.
func splitRecord(value []byte) (body, mac []byte) {
	at := len(value) - recordTail
	if at < 2 {
		return value, nil
	}
	if !bytes.HasPrefix(value[at:], []byte(recordOpen)) || !bytes.HasSuffix(value, []byte(recordClose)) {
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

// RecordsUnsigned reports whether other instances may still run a release that does not sign records: this
// is possible until a bound key of the ring has become active. Until then, data that such a release cannot
// read must not be written.
func RecordsUnsigned(s host.Sealer, now time.Time) bool {
	until, err := s.CheckMAC(recordMAC, nil, nil)
	return err == nil && (until.IsZero() || now.Before(until))
}
