package transcript

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/wasm/abi"
	"github.com/verge-id/verge/wasm/settings"
)

// formatVersion is the version of the format.
const formatVersion = 1

// maxLine is the maximum length of a line in bytes. The largest message fits, even if each of its bytes has
// to be escaped.
const maxLine = 6*abi.MaxInbox + 1<<20

// Transcript is the configuration of a service and its requests, in order.
type Transcript struct {
	Config settings.Config // its key ring is readable here, so it must not protect anything
	Steps  []Step
}

// Step is one request, from its entry to its response.
type Step struct {
	Name   string
	Now    time.Time // the clock's time during the step; not before the previous step's
	Seed   uint64    // of its randomness
	Entry  abi.Entry
	Body   []byte // the entry's message
	Events []Event
	Answer []byte // the entry's result
}

// Event is an effect with its reply, or a notice.
type Event struct {
	Kind   abi.Kind
	Body   []byte     // the message; a log's is text
	Status abi.Status // of an effect, like Reply
	Reply  []byte
}

// errFormat is returned for input that is not a transcript of this version.
var errFormat = errors.New("no transcript")

type head struct {
	Transcript int             `json:"transcript"`
	ABI        int             `json:"abi"`
	Config     settings.Config `json:"config"`
}

type step struct {
	Name   string    `json:"name"`
	Now    time.Time `json:"now"`
	Seed   uint64    `json:"seed"`
	Entry  string    `json:"entry"`
	Body   string    `json:"body,omitempty"`
	Events []event   `json:"events,omitempty"`
	Answer string    `json:"answer"`
}

type event struct {
	Kind   string     `json:"kind"`
	Body   string     `json:"body,omitempty"`
	Status abi.Status `json:"status,omitempty"`
	Reply  string     `json:"reply,omitempty"`
}

// Write writes t uncompressed.
func (t *Transcript) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(head{formatVersion, abi.Version, t.Config}); err != nil {
		return err
	}
	for _, s := range t.Steps {
		line := step{Name: s.Name, Now: s.Now.UTC(), Seed: s.Seed, Entry: s.EntryName(),
			Body: characters(s.Body), Answer: characters(s.Answer)}
		for _, v := range s.Events {
			line.Events = append(line.Events, event{
				Kind: kinds[v.Kind].name, Body: characters(v.Body), Status: v.Status,
				Reply: characters(v.Reply)})
		}
		if err := e.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

// Read reads a transcript, compressed or not. If the format is invalid, the error has the line and the
// reason. Any other error comes from r.
func Read(r io.Reader) (*Transcript, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("%w: gzip: %w", errFormat, err)
		}
		defer z.Close()
		in = bufio.NewReaderSize(z, 64<<10)
	}
	t := &Transcript{}
	for n := 1; ; n++ {
		line, err := readLine(in)
		if err == io.EOF && n == 1 {
			return nil, fmt.Errorf("%w: it is empty", errFormat)
		}
		if err == io.EOF {
			return t, nil
		}
		if err == nil && n == 1 {
			err = t.readHead(line)
		} else if err == nil {
			err = t.readStep(line)
		}
		if damaged(err) {
			err = fmt.Errorf("%w: %w", errFormat, err)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
}

// damaged reports whether err means that a compressed file is corrupt or truncated.
func damaged(err error) bool {
	var corrupt flate.CorruptInputError
	return errors.As(err, &corrupt) || errors.Is(err, gzip.ErrChecksum) ||
		errors.Is(err, gzip.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF)
}

// readLine returns the next line without its line feed, and io.EOF after the last.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return nil, fmt.Errorf("%w: it is longer than %d bytes", errFormat, maxLine)
		case err == nil, err == io.EOF && len(line) > 0:
			return bytes.TrimSuffix(line, []byte("\n")), nil
		case err != bufio.ErrBufferFull:
			return nil, err
		}
	}
}

// decode parses a line with exactly one object.
func decode(line []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			err = errors.New("it is cut short")
		}
		return fmt.Errorf("%w: %w", errFormat, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("%w: something follows the object", errFormat)
	}
	return nil
}

func (t *Transcript) readHead(line []byte) error {
	var version struct {
		Transcript int `json:"transcript"`
		ABI        int `json:"abi"`
	}
	switch err := json.Unmarshal(line, &version); {
	case err != nil || version.Transcript == 0:
		return fmt.Errorf("%w: it must be a head like {\"transcript\":%d,\"abi\":%d,\"config\":{…}}",
			errFormat, formatVersion, abi.Version)
	case version.Transcript != formatVersion || version.ABI != abi.Version:
		return fmt.Errorf("%w: version %d of ABI %d, and this program reads version %d of ABI %d",
			errFormat, version.Transcript, version.ABI, formatVersion, abi.Version)
	}
	var h head
	if err := decode(line, &h); err != nil {
		return err
	}
	if _, err := keyring.Parse(h.Config.Keyring); err != nil {
		return fmt.Errorf("%w: config.keyring: %w", errFormat, err)
	}
	t.Config = h.Config
	return nil
}

// readStep parses a step and checks it as far as possible without a core: an accepted step can be replayed.
func (t *Transcript) readStep(line []byte) error {
	var l step
	if err := decode(line, &l); err != nil {
		return err
	}
	wrong := func(where string, err error) error { return fmt.Errorf("%w: %s: %w", errFormat, where, err) }
	s := Step{Name: l.Name, Now: l.Now.UTC(), Seed: l.Seed}
	var err error
	if s.Now.Year() < 1970 || s.Now.Year() > 2200 {
		return wrong("now", errors.New("it must be between the years 1970 and 2200"))
	}
	if len(t.Steps) > 0 && s.Now.Before(t.Steps[len(t.Steps)-1].Now) {
		return wrong("now", errors.New("the clock goes back"))
	}
	if s.Entry, err = named(entries, l.Entry); err != nil {
		return wrong("entry", err)
	}
	if s.Body, err = message(l.Body, entries[s.Entry].body); err != nil {
		return wrong("body", err)
	}
	if s.Answer, err = message(l.Answer, entries[s.Entry].result); err != nil {
		return wrong("answer", err)
	}
	for n, v := range l.Events {
		e, err := v.read()
		if err != nil {
			return wrong(fmt.Sprintf("event %d", n+1), err)
		}
		s.Events = append(s.Events, e)
	}
	t.Steps = append(t.Steps, s)
	return nil
}

func (v event) read() (e Event, err error) {
	if e.Kind, err = named(kinds, v.Kind); err != nil {
		return e, err
	}
	k := kinds[e.Kind]
	if e.Body, err = message(v.Body, k.body); err != nil {
		return e, fmt.Errorf("body: %w", err)
	}
	e.Status = v.Status
	reply, ok := k.replies[e.Status]
	switch {
	case k.replies == nil && (v.Status != 0 || v.Reply != ""):
		return e, fmt.Errorf("a %s is not replied to", k.name)
	case k.replies == nil:
		return e, nil
	case !ok:
		return e, fmt.Errorf("a %s is not replied to with status %d", k.name, e.Status)
	}
	if e.Reply, err = message(v.Reply, reply); err != nil {
		return e, fmt.Errorf("reply: %w", err)
	}
	return e, nil
}

// message returns the bytes that text represents, if read accepts them.
func message(text string, read reading) ([]byte, error) {
	b := make([]byte, 0, len(text))
	for _, r := range text {
		if r > 0xff {
			return nil, fmt.Errorf("character %U is no byte", r)
		}
		b = append(b, byte(r))
	}
	if _, err := read(b); err != nil {
		return nil, err
	}
	return slices.Clip(b), nil
}

// characters is the reverse of message.
func characters(b []byte) string {
	var s strings.Builder
	s.Grow(len(b))
	for _, c := range b {
		s.WriteRune(rune(c))
	}
	return s.String()
}
