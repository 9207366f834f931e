package session

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/internal/uuid"
	"github.com/verge-id/verge/core/kv"
)

// Life is the lifetime of a session from its creation (spec, Limits).
const Life = 10 * time.Minute

// Prefix is the prefix of every session id in text form.
const Prefix = "svc_sess_"

// A session id, version 1, before base64url:
//
//	offset 0   1 byte    version, 0x01
//	       1  16 bytes   integration, UUID
//	      17   1 byte    level, 1 or 2
//	      18   1 byte    challenge age in years
//	      19   6 bytes   creation, milliseconds since 1970, big endian
//	      25   2 bytes   KV partition, big endian
//	      27  12 bytes   random
//	      39  20 bytes   MAC with its key id (token.Ring.MAC)
const (
	idVersion  = 0x01
	randomSize = 12
	bodySize   = 39
	idSize     = bodySize + host.MACSize
)

var idText = base64.RawURLEncoding.Strict()

// ID contains the parts of a session id.
type ID struct {
	Integration  string // UUID, lower case
	Level        Level
	ChallengeAge int
	Created      time.Time // whole milliseconds, UTC
	Partition    Partition
	Random       [randomSize]byte
}

// Partition is one of the KV partitions over which sessions are spread.
type Partition uint16

// Name returns the name of the partition in the store: p and the number.
func (p Partition) Name() kv.Partition {
	if int(p) < len(firstNames) {
		return firstNames[p]
	}
	return kv.Partition("p" + strconv.Itoa(int(p)))
}

// firstNames saves work: each request needs a name several times, and few services have more partitions.
var firstNames = [...]kv.Partition{"p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7",
	"p8", "p9", "p10", "p11", "p12", "p13", "p14", "p15"}

// Level is the kind of check: age estimation or identity document.
type Level byte

// The two levels (spec, What the service does).
const (
	L1 Level = 1 // age estimation
	L2 Level = 2 // identity document
)

func (l Level) String() string {
	switch l {
	case L1:
		return "L1"
	case L2:
		return "L2"
	}
	return "L" + strconv.Itoa(int(l))
}

// ParseLevel parses "L1" or "L2".
func ParseLevel(s string) (Level, error) {
	switch s {
	case "L1":
		return L1, nil
	case "L2":
		return L2, nil
	}
	return 0, fmt.Errorf("session: level %q is neither L1 nor L2", s)
}

var (
	// ErrMalformed: the text does not have the form of a session id.
	ErrMalformed = errors.New("session: malformed id")
	// ErrForged: the text has the form of a session id, but this key ring did not issue it.
	ErrForged = errors.New("session: id not issued here")
)

// NewID returns the id of a session created at now.
func NewID(random io.Reader, integration string, level Level, challengeAge int, now time.Time,
	partition Partition) (ID, error) {
	id := ID{Integration: integration, Level: level, ChallengeAge: challengeAge,
		Created: time.UnixMilli(now.UnixMilli()).UTC(), Partition: partition}
	if _, err := io.ReadFull(random, id.Random[:]); err != nil {
		return ID{}, fmt.Errorf("session: reading randomness: %w", err)
	}
	return id, nil
}

// Expires returns the time at which the session ends.
func (id ID) Expires() time.Time { return id.Created.Add(Life) }

// Key returns the key of the outcome.
func (id ID) Key() kv.Key { return id.key("s/") }

// UsedKey returns the key of the mark that the result token was used.
func (id ID) UsedKey() kv.Key { return id.key("u/") }

// PasskeyKey returns the key of the mark that a passkey was created from the session's verdict.
func (id ID) PasskeyKey() kv.Key { return id.key("p/") }

// TimerID returns the name of the session's expiry task.
func (id ID) TimerID() string { return id.name("x/") }

func (id *ID) key(prefix string) kv.Key {
	return kv.Key{Partition: id.Partition.Name(), Name: id.name(prefix)}
}

func (id *ID) name(prefix string) string {
	return string(idText.AppendEncode([]byte(prefix), id.Random[:]))
}

// Format returns the text of the id, with its MAC.
func (id ID) Format(sealer host.Sealer) (string, error) { return id.format(sealer, token.SessionID) }

// formatTest returns the text of an id for the event of a webhook test. It has the form of a session id, so a
// receiver that checks the form accepts it. Its MAC has another purpose, so ParseID returns ErrForged, and
// requests for it fail like those for an unknown session.
func (id ID) formatTest(sealer host.Sealer) (string, error) { return id.format(sealer, token.TestID) }

// NewTest returns the id for the event of a webhook test, and its text from formatTest. There is no such
// session.
func NewTest(
	random io.Reader, sealer host.Sealer, integration, level string, challengeAge int, now time.Time,
) (id ID, text string, err error) {
	of, err := ParseLevel(level)
	if err != nil {
		return ID{}, "", err
	}
	if id, err = NewID(random, integration, of, challengeAge, now, 0); err != nil {
		return ID{}, "", err
	}
	text, err = id.formatTest(sealer)
	return id, text, err
}

func (id ID) format(sealer host.Sealer, purpose string) (string, error) {
	integration, err := uuid.Parse(id.Integration)
	if err != nil {
		return "", err
	}
	b := make([]byte, 0, idSize)
	b = append(b, idVersion)
	b = append(b, integration[:]...)
	b = append(b, byte(id.Level), byte(id.ChallengeAge))
	ms := uint64(id.Created.UnixMilli())
	b = binary.BigEndian.AppendUint16(b, uint16(ms>>32))
	b = binary.BigEndian.AppendUint32(b, uint32(ms))
	b = binary.BigEndian.AppendUint16(b, uint16(id.Partition))
	b = append(b, id.Random[:]...)
	mac, err := sealer.MAC(purpose, b)
	if err != nil {
		return "", err
	}
	return token.EncodeText(Prefix, append(b, mac...)), nil
}

// ParseID parses the text and checks its MAC. It returns ErrMalformed, ErrForged or host.ErrKeyAwaited.
func ParseID(sealer host.Sealer, s string) (ID, error) {
	text, ok := strings.CutPrefix(s, Prefix)
	if !ok || len(text) != idText.EncodedLen(idSize) {
		return ID{}, ErrMalformed
	}
	b, err := idText.DecodeString(text)
	if err != nil || len(b) != idSize { // the decoder skips line breaks
		return ID{}, ErrMalformed
	}
	until, err := sealer.CheckMAC(token.SessionID, b[:bodySize], b[bodySize:])
	if errors.Is(err, host.ErrKeyAwaited) {
		return ID{}, err
	}
	if err != nil || b[0] != idVersion {
		return ID{}, ErrForged
	}
	id := ID{
		Integration:  uuid.Format([16]byte(b[1:17])),
		Level:        Level(b[17]),
		ChallengeAge: int(b[18]),
		Created:      time.UnixMilli(int64(binary.BigEndian.Uint64(append([]byte{0, 0}, b[19:25]...)))).UTC(),
		Partition:    Partition(binary.BigEndian.Uint16(b[25:27])),
		Random:       [randomSize]byte(b[27:39]),
	}
	if !host.ValidAt(id.Created, until) {
		return ID{}, ErrForged
	}
	return id, nil
}
