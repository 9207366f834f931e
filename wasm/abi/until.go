package abi

import (
	"encoding/binary"
	"errors"
	"time"
)

// UntilSize is the number of bytes that Append.Until appends.
const UntilSize = 8

// Until appends the time until which a key was in use, as the imports open and check_mac return it: 8
// bytes, big endian, milliseconds since 1970. It is 0 for a key that is still in use.
func (appender) Until(b []byte, until time.Time) []byte {
	ms := int64(0)
	if !until.IsZero() {
		ms = until.UnixMilli()
	}
	return binary.BigEndian.AppendUint64(b, uint64(ms))
}

// Until reads the output of Append.Until and returns the bytes that follow.
func (parser) Until(b []byte) (rest []byte, until time.Time, err error) {
	if len(b) < UntilSize {
		return nil, until, errors.New("abi: the host's response is too short")
	}
	if ms := int64(binary.BigEndian.Uint64(b)); ms != 0 {
		until = time.UnixMilli(ms).UTC()
	}
	return b[UntilSize:], until, nil
}
