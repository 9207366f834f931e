package openid4vp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/core/method"
)

// parsedLists keeps the anchors of each list as they were read last, by the digest of the list. Reading a
// certificate takes a guest a while.
type parsedLists struct {
	mu  sync.Mutex
	all map[string]parsedList
}

type parsedList struct {
	content string
	anchors []mdoc.Anchor
}

// of returns the anchors of a list's certificates.
func (p *parsedLists) of(digest string, listed method.ListedAnchors) []mdoc.Anchor {
	p.mu.Lock()
	defer p.mu.Unlock()
	if before, ok := p.all[digest]; ok && before.content == listed.Content {
		return before.anchors
	}
	var anchors []mdoc.Anchor
	for _, der := range listed.Certificates {
		if a, ok := mdoc.ListedAnchor(der); ok {
			anchors = append(anchors, a)
		}
	}
	if p.all == nil {
		p.all = map[string]parsedList{}
	}
	p.all[digest] = parsedList{listed.Content, anchors}
	return anchors
}

// anchors returns the trust anchors that count now: those of the settings, and those of each list whose grace
// is not over. After an error nothing is known.
func (o *openID) anchors(ctx context.Context) ([]mdoc.Anchor, error) {
	all := o.settings.anchors
	for _, l := range o.settings.lists {
		listed, err := o.host.Anchors(ctx, l)
		if errors.Is(err, method.ErrNoList) {
			continue
		}
		if err != nil {
			return nil, &method.SettingError{Reason: noAnchor, Setting: listsName, Detail: l.Name,
				Err: fmt.Errorf("openid4vp: reading the trusted list %s: %w", l.Name, err)}
		}
		all = slices.Concat(all, o.trusted.of(l.Digest(), listed))
	}
	return all, nil
}

// noAnchor is the reason of a method without a trust anchor: no list of its settings counts now.
const noAnchor = "trust_lists"

var errNoAnchor = errors.New("openid4vp: no trusted list is stored that counts now, and there is no trust " +
	"anchor; run `verge method list-fetch`, or for a Worker `verge method list-load`")

// hasAnchors returns an error if no document could be believed now.
func (o *openID) hasAnchors(ctx context.Context) error {
	if len(o.settings.anchors)+len(o.settings.keys) > 0 {
		return nil
	}
	anchors, err := o.anchors(ctx)
	if err == nil && len(anchors) == 0 {
		err = &method.SettingError{Reason: noAnchor, Setting: listsName, Err: errNoAnchor}
	}
	return err
}
