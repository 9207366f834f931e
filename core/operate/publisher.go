package operate

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/brand"
	"github.com/verge-id/verge/core/web"
)

// Publishers lists all publishers, in the order of their ids.
func (o *Operations) Publishers(ctx context.Context, who Actor, c Search) (Page[Publisher], error) {
	if err := who.may(publisherList, ""); err != nil {
		return Page[Publisher]{}, err
	}
	type stored = integration.Versioned[integration.Publisher]
	keep := named(c, func(p stored) string { return p.Value.Name + "\n" + p.Value.ID })
	found, next, err := find(c.Cursor, keep, func(after string, n int) ([]stored, string, error) {
		return o.Directory.ListPublishers(ctx, after, n)
	}, func(p stored) string { return p.Value.ID })
	if err != nil {
		return Page[Publisher]{}, o.apiError(err)
	}
	page := Page[Publisher]{Next: next}
	for _, p := range found {
		page.Items = append(page.Items, Publisher{p.Value, p.Version})
	}
	return page, nil
}

// Publisher returns one publisher.
func (o *Operations) Publisher(ctx context.Context, who Actor, id string) (Publisher, error) {
	if err := who.may(publisherRead, id); err != nil {
		return Publisher{}, err
	}
	p, err := o.Directory.ReadPublisher(ctx, id)
	return Publisher{p.Value, p.Version}, o.apiError(err)
}

// CreatePublisher creates a publisher.
func (o *Operations) CreatePublisher(ctx context.Context, who Actor, in PublisherInput) (Publisher, error) {
	if err := who.may(publisherCreate, ""); err != nil {
		return Publisher{}, err
	}
	wrong := o.wrong()
	p := integration.Publisher{ID: in.ID}
	if p.ID == "" {
		var b [12]byte
		if _, err := io.ReadFull(o.Random, b[:]); err != nil {
			return Publisher{}, fmt.Errorf("operate: reading randomness: %w", err)
		}
		p.ID = integration.PublisherPrefix + hex.EncodeToString(b[:])
	}
	if err := p.Validate(); err != nil {
		wrong.add("id", "value", "It must be %s followed by 1 to 64 letters, digits, - or _.",
			integration.PublisherPrefix)
	}
	if in.Name == nil {
		wrong.add("name", "required", "Give the publisher a name.")
	}
	file := o.applyTo(&p, in, &wrong)
	if err := wrong.err(); err != nil {
		return Publisher{}, err
	}
	logo, err := o.Directory.PutLogo(ctx, nil, p, file)
	if err != nil {
		return Publisher{}, o.apiError(err)
	}
	entry, err := o.auditEntry(who, publisherCreate, p.ID, p.ID, p.Changes(integration.Publisher{})...)
	if err != nil {
		return Publisher{}, err
	}
	_, err = o.Directory.SavePublisher(ctx, p, "", append(logo, entry...)...)
	if errors.Is(err, integration.ErrExists) {
		return Publisher{},
			errInvalid(web.FieldError{Field: "id", Code: "conflict",
				Message: "A publisher with this id already exists."})
	}
	if err != nil {
		return Publisher{}, o.apiError(err)
	}
	return o.Publisher(ctx, who, p.ID)
}

// ChangePublisher changes the publisher that has that version. Without a difference, the version stays.
func (o *Operations) ChangePublisher(ctx context.Context, who Actor, id, version string, in PublisherInput) (
	Publisher, error) {
	return o.changePublisher(ctx, who, publisherChange, id, version,
		func(p *integration.Publisher) (file []byte, err error) {
			wrong := o.wrong()
			file = o.applyTo(p, in, &wrong)
			return file, wrong.err()
		})
}

// applyTo sets the fields of p that in has. It returns the file of a new logo.
func (o *Operations) applyTo(p *integration.Publisher, in PublisherInput, wrong *invalid) (file []byte) {
	if in.Name != nil {
		p.Name = wrong.name("name", *in.Name)
		if o.isOurs(p.Name) {
			wrong.add("name", "value",
				"This is the name of the service. A publisher needs another one, so that "+
					"users see who asks them.")
		}
	}
	if in.Accent != nil {
		p.Accent = strings.ToLower(strings.TrimSpace(*in.Accent))
		if integration.AccentProblem(p.Accent) != "" {
			wrong.add("accent", "value", "An accent colour is # and six hexadecimal digits, such as #0b6a5a.")
		}
	}
	if in.Logo == nil {
		return nil
	}
	file, err := base64.StdEncoding.DecodeString(*in.Logo)
	if err != nil {
		wrong.add("logo_base64", "value", "A logo is a file in standard base64.")
		return nil
	}
	next, problem := p.SetLogo(file)
	if problem != "" {
		wrong.add("logo_base64", "value", "%s", problem)
	}
	*p = next
	return file
}

// isOurs reports whether a name is the one of the service, in any case, with any spaces and with characters
// that a name may have and that are not seen.
func (o *Operations) isOurs(name string) bool {
	unseen := func(r rune) bool { return unicode.IsSpace(r) || brand.IsUnseen(r) }
	plain := func(s string) string { return strings.ToLower(strings.Join(strings.FieldsFunc(s, unseen), "")) }
	return name != "" && plain(name) == plain(o.ServiceName)
}

// ArchivePublisher archives the publisher that has that version: its integrations start no more sessions, and
// its keys are rejected. Active sessions continue.
func (o *Operations) ArchivePublisher(ctx context.Context, who Actor, id, version string) (Publisher, error) {
	return o.changePublisher(ctx, who, publisherArchive, id, version,
		func(p *integration.Publisher) ([]byte, error) {
			now := o.Now().UTC()
			p.Archived = &now
			return nil, nil
		})
}

func (o *Operations) changePublisher(ctx context.Context, who Actor, op Operation, id, version string,
	alter func(*integration.Publisher) (logo []byte, err error)) (Publisher, error) {
	if err := who.may(op, id); err != nil {
		return Publisher{}, err
	}
	return overtaking(version, func() (Publisher, error) {
		return o.changePublisherOnce(ctx, who, op, id, version, alter)
	})
}

func (o *Operations) changePublisherOnce(ctx context.Context, who Actor, op Operation, id, version string,
	alter func(*integration.Publisher) (logo []byte, err error)) (Publisher, error) {
	was, err := o.Directory.ReadPublisher(ctx, id)
	if err != nil {
		return Publisher{}, o.apiError(err)
	}
	p := was.Value
	switch {
	case p.Managed:
		return Publisher{}, ErrManaged
	case p.Archived != nil:
		return Publisher{}, ErrArchived
	}
	if err := fresh(version, was.Version); err != nil {
		return Publisher{p, was.Version}, err
	}
	p.Removed = false // a change by hand makes it independent of the file
	file, err := alter(&p)
	if err != nil {
		return Publisher{}, err
	}
	changes := p.Changes(was.Value)
	if len(changes) == 0 {
		return Publisher{p, was.Version}, nil
	}
	logo, err := o.Directory.PutLogo(ctx, was.Value.Logo, p, file)
	if err != nil {
		return Publisher{}, o.apiError(err)
	}
	entry, err := o.auditEntry(who, op, id, id, changes...)
	if err != nil {
		return Publisher{}, err
	}
	if _, err := o.Directory.SavePublisher(ctx, p, was.Version, append(logo, entry...)...); err != nil {
		return Publisher{}, o.apiError(err)
	}
	return o.Publisher(ctx, who, id)
}

// name returns a name that a person gives something, without space at its ends.
func (i *invalid) name(field, text string) string {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		i.add(field, "required", "Give it a name.")
	case !brand.IsPrintable(text):
		i.add(field, "value", "A name has letters, digits, spaces and signs, "+
			"and no characters that cannot be seen or that cover other text.")
	case utf8.RuneCountInString(text) > brand.MaxName:
		i.add(field, "length", "A name has at most %d characters.", brand.MaxName)
	}
	return text
}
