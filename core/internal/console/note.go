package console

import (
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/fips140"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/console/pages"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/operate"
)

// note is the result of a form, for the page after it.
type note struct {
	Tone   string `json:"tone,omitempty"` // "": good
	Text   string `json:"text,omitempty"`
	Secret string `json:"secret,omitempty"`
	Label  string `json:"label,omitempty"`  // name of the secret
	Advice string `json:"advice,omitempty"` // how to use it

	At       time.Time            `json:"at"`
	Report   *operate.TestReport  `json:"report,omitempty"`
	Staged   bool                 `json:"staged,omitempty"` // the report is about the staged webhook
	Exchange *operate.Exchange    `json:"exchange,omitempty"`
	Session  *operate.TestSession `json:"session,omitempty"`
	For      string               `json:"for,omitempty"` // the integration of the result
}

// done returns a note with a success message.
func done(text string) note { return note{Text: text} }

func (n note) status() pages.Status {
	return pages.Status{Tone: cmp.Or(n.Tone, pages.Good), Text: n.Text, Secret: n.Secret, Label: n.Label,
		Advice: n.Advice}
}

// A note is stored for the page that shows it. Its name and its key are derived from the session's cookie and
// a random id. The store has neither of them, so a reader of the store cannot open a note, and a writer
// cannot forge one. A note with a secret is shown once: it is deleted before it is shown.
const (
	noteParam = "note"
	noteItems = "c/note/"
	noteDone  = "c/noted/" // of the receipts of notes
	noteLife  = 10 * time.Minute
	noteIDs   = 16 // random bytes
	labelNote = "verge/v1/console-note/"
)

// noteNonce is the size of a nonce of AES-GCM, in bytes. A key seals one note, so any nonce is secure.
const noteNonce = 12

// noteKey returns the item's name and the AEAD that seals it: AES-256-GCM, which wallets' responses need in
// any case, so that it does not enlarge the guest.
func noteKey(cookie, id string) (name string, aead cipher.AEAD, err error) {
	const nameSize, keySize = 16, 32
	b, err := hkdf.Key(sha256.New, []byte(cookie), []byte(id), labelNote, nameSize+keySize)
	if err != nil {
		return "", nil, fmt.Errorf("console: %w", err)
	}
	block, err := aes.NewCipher(b[nameSize:])
	if err != nil {
		return "", nil, fmt.Errorf("console: %w", err)
	}
	// Under GODEBUG=fips140=only, a caller cannot choose nonces. The key seals one note, see noteNonce.
	fips140.WithoutEnforcement(func() { aead, err = cipher.NewGCM(block) })
	if err != nil {
		return "", nil, fmt.Errorf("console: %w", err)
	}
	return noteItems + hex.EncodeToString(b[:nameSize]), aead, nil
}

// keepNote stores a note and returns the path with its parameter.
func (c *Console) keepNote(ctx context.Context, path, cookie string, n note) (string, error) {
	if n.Text == "" || cookie == "" {
		return path, nil
	}
	n.At = c.Host.Now().UTC()
	random := make([]byte, noteIDs+noteNonce)
	if _, err := io.ReadFull(c.Host.Random, random); err != nil {
		return path, fmt.Errorf("console: %w", err)
	}
	id, nonce := hex.EncodeToString(random[:noteIDs]), random[noteIDs:]
	name, aead, err := noteKey(cookie, id)
	if err != nil {
		return path, err
	}
	text, err := json.Marshal(n)
	if err != nil {
		return path, fmt.Errorf("console: %w", err)
	}
	expires := c.Host.Now().Add(noteLife)
	err = kv.CommitOnce(ctx, c.Host.KV, kv.Tx{ID: "note-" + id,
		Partition: integration.Partition, Checks: []kv.Check{{Name: name}},
		Puts: []kv.Put{{Name: name, Value: aead.Seal(nonce, nonce, text, []byte(name)), Expires: expires}}},
		kv.Put{Name: noteDone + strings.TrimPrefix(name, noteItems), Value: []byte{1}, Expires: expires})
	if err != nil {
		return path, err
	}
	mark := "?"
	if strings.Contains(path, "?") {
		mark = "&"
	}
	path, fragment, has := strings.Cut(path, "#")
	path += mark + noteParam + "=" + id
	if has {
		path += "#" + fragment
	}
	return path, nil
}

// takeNote returns the note of that id, or none. A note with a secret is deleted first. If the store does not
// confirm the deletion, the secret is not shown, because it could be shown twice.
func (v *visit) takeNote(id string) note {
	name, aead, err := noteKey(v.cookie, id)
	if err != nil {
		return note{}
	}
	item, err := v.Host.KV.Get(v.ctx, kv.Key{Partition: integration.Partition, Name: name})
	if err != nil {
		if !errors.Is(err, kv.ErrNotFound) {
			return note{Tone: pages.Wait,
				Text: "The result of the form is not available at the moment. Reload the page."}
		}
		return note{}
	}
	if len(item.Value) < noteNonce {
		return note{}
	}
	nonce, sealed := item.Value[:noteNonce], item.Value[noteNonce:]
	text, err := aead.Open(nil, nonce, sealed, []byte(name))
	var n note
	if err != nil || json.Unmarshal(text, &n) != nil {
		return note{}
	}
	if n.Secret == "" {
		return n
	}
	random := make([]byte, noteIDs)
	if _, err := io.ReadFull(v.Host.Random, random); err != nil {
		return note{}
	}
	err = kv.CommitSurely(v.ctx, v.Host.KV, kv.Tx{ID: "seen-" + hex.EncodeToString(random),
		Partition: integration.Partition,
		Checks:    []kv.Check{{Name: name, Tx: item.Tx}}, Deletes: []string{name}})
	if err != nil {
		if kv.IsConflict(err) && !errors.Is(err, kv.ErrUnknown) {
			return note{} // another page has shown it
		}
		n.Secret = ""
		n.Tone, n.Text = pages.Bad,
			n.Text+" It cannot be shown, because the store does not respond. Make a new one, "+
				"and end this one."
	}
	return n
}
