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
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/token"
)

// Life is how long a session lives from its creation (spec, Limits).
const Life = 10 * time.Minute

// Prefix begins every session id in text.
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

// ID is a session id taken apart.
type ID struct {
	Integration  string // UUID, lower case
	Level        Level
	ChallengeAge int
	Created      time.Time // whole milliseconds, UTC
	Partition    uint16
	Random       [randomSize]byte
}

// Level is what is verified.
type Level byte

// The two levels (spec, What the service does).
const (
	L1 Level = 1 // age estimation
	L2 Level = 2 // identity document
)

func (l Level) String() string { return "L" + strconv.Itoa(int(l)) }

// ParseLevel reads "L1" or "L2".
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
	// ErrMalformed: the text is no session id at all.
	ErrMalformed = errors.New("session: malformed id")
	// ErrForged: the text has the form of a session id, but was not issued by this key ring.
	ErrForged = errors.New("session: id not issued here")
)

// NewID makes the id of a session created at now.
func NewID(random io.Reader, integration string, level Level, challengeAge int, now time.Time, partition uint16) (ID, error) {
	id := ID{Integration: integration, Level: level, ChallengeAge: challengeAge,
		Created: time.UnixMilli(now.UnixMilli()).UTC(), Partition: partition}
	if _, err := io.ReadFull(random, id.Random[:]); err != nil {
		return ID{}, fmt.Errorf("session: reading randomness: %w", err)
	}
	return id, nil
}

// Expires is the instant from which on the session is over.
func (id ID) Expires() time.Time { return id.Created.Add(Life) }

// Key is where the outcome is kept.
func (id ID) Key(p kv.Partition) kv.Key { return kv.Key{Partition: p, Name: id.name("s/")} }

// UsedKey is where the consumption of the result token is kept.
func (id ID) UsedKey(p kv.Partition) kv.Key { return kv.Key{Partition: p, Name: id.name("u/")} }

// TimerID names the session's expiry task.
func (id ID) TimerID() string { return id.name("x/") }

func (id ID) name(prefix string) string {
	return string(idText.AppendEncode([]byte(prefix), id.Random[:]))
}

// Format writes the id with its MAC.
func (id ID) Format(sealer host.Sealer) (string, error) { return id.format(sealer, token.SessionID) }

// FormatTest writes an id for the event of a webhook test. It has the form of
// every id, so that a receiver which checks the form accepts it. Its MAC is
// made for another purpose, so it was issued for no session: ParseID returns
// ErrForged, and whoever asks for it learns that there is no such session.
func (id ID) FormatTest(sealer host.Sealer) (string, error) { return id.format(sealer, token.TestID) }

func (id ID) format(sealer host.Sealer, purpose string) (string, error) {
	uuid, err := ParseUUID(id.Integration)
	if err != nil {
		return "", err
	}
	b := make([]byte, 0, idSize)
	b = append(b, idVersion)
	b = append(b, uuid[:]...)
	b = append(b, byte(id.Level), byte(id.ChallengeAge))
	ms := uint64(id.Created.UnixMilli())
	b = binary.BigEndian.AppendUint16(b, uint16(ms>>32))
	b = binary.BigEndian.AppendUint32(b, uint32(ms))
	b = binary.BigEndian.AppendUint16(b, id.Partition)
	b = append(b, id.Random[:]...)
	mac, err := sealer.MAC(purpose, b)
	if err != nil {
		return "", err
	}
	return token.EncodeText(Prefix, append(b, mac...)), nil
}

// ParseID takes the text apart and checks its MAC: ErrMalformed, ErrForged,
// host.ErrKeyAwaited or an id that was issued here.
func ParseID(sealer host.Sealer, s string) (ID, error) {
	text, ok := strings.CutPrefix(s, Prefix)
	if !ok || len(text) != idText.EncodedLen(idSize) {
		return ID{}, ErrMalformed
	}
	b, err := idText.DecodeString(text)
	if err != nil || len(b) != idSize { // also where the decoder has skipped a line break
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
		Integration:  FormatUUID([16]byte(b[1:17])),
		Level:        Level(b[17]),
		ChallengeAge: int(b[18]),
		Created:      time.UnixMilli(int64(binary.BigEndian.Uint64(append([]byte{0, 0}, b[19:25]...)))).UTC(),
		Partition:    binary.BigEndian.Uint16(b[25:27]),
		Random:       [randomSize]byte(b[27:39]),
	}
	if !host.Dated(id.Created, until) {
		return ID{}, ErrForged
	}
	return id, nil
}
