package console

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/verge-id/verge/core/internal/console/pages"
	"github.com/verge-id/verge/core/operate"
)

// choices returns the integrations to choose from on a page of a publisher.
func (v *visit) choices() ([]operate.Integration, error) {
	return v.Console.choices(v.ctx, v.who(), v.publisher.ID)
}

// choices returns the first integrations of a publisher by name: the active ones, then archived ones.
func (c *Console) choices(ctx context.Context, who operate.Actor, publisher string) (
	[]operate.Integration, error) {
	most := operate.Cursor{Limit: operate.MaxLimit}
	found, err := c.Operations.Integrations(ctx, who, publisher, operate.Search{Cursor: most})
	if err != nil || found.Next == "" {
		return byName(found.Items), err
	}
	active, err := c.Operations.ActiveIntegrations(ctx, who, publisher, most)
	archived := slices.DeleteFunc(found.Items, func(i operate.Integration) bool { return i.Archived == nil })
	return byName(append(active.Items, archived...)), err
}

// chosen returns the choices and the integration in the address, or else the default one. nil: none exists.
func (v *visit) chosen(id string) ([]operate.Integration, *operate.Integration, error) {
	all, err := v.choices()
	if err != nil {
		return nil, nil, err
	}
	if id != "" {
		i, err := v.integration(id)
		if err != nil {
			return nil, nil, err
		}
		if !slices.ContainsFunc(all, func(one operate.Integration) bool { return one.ID == i.ID }) {
			all = append(slices.Clone(all), i) // it is not on the first page
		}
		return all, &i, nil
	}
	first := mostInUse(all)
	if first == nil && len(all) > 0 {
		first = &all[0]
	}
	return all, first, nil
}

// mostInUse returns the first integration that is ready and sends events, or else the first that is ready, or
// else the first that is not archived; nil: none exists.
func mostInUse(all []operate.Integration) *operate.Integration {
	for _, is := range []func(operate.Integration) bool{
		func(i operate.Integration) bool { return i.Ready && i.Webhook.URL != "" && !i.Webhook.Off },
		func(i operate.Integration) bool { return i.Ready },
		func(operate.Integration) bool { return true },
	} {
		for n := range all {
			if all[n].Archived == nil && is(all[n]) {
				return &all[n]
			}
		}
	}
	return nil
}

// byName returns integrations sorted by name, archived ones last. The store sorts them by their random ids.
func byName(all []operate.Integration) []operate.Integration {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b operate.Integration) int {
		if (a.Archived == nil) != (b.Archived == nil) {
			if a.Archived == nil {
				return -1
			}
			return 1
		}
		return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	return all
}

func showTest(v *visit) (view, error) {
	id := v.query.Get("integration")
	if v.form != nil {
		id = v.form.Get("integration_id")
	}
	back := v.back()
	if back != nil && id == "" {
		id = back.Integration
	}
	all, chosen, err := v.chosen(id)
	if err != nil {
		return view{}, err
	}
	d := pages.TestData{All: all, Integration: chosen, At: v.note.At, Under: back}
	if chosen != nil && v.note.For == chosen.ID {
		d.Exchange, d.Session = v.note.Exchange, v.note.Session
	}
	if d.Exchange != nil {
		d.Type = d.Exchange.Type
	}
	f := v.frame("Test console")
	if d.Session != nil {
		s, err := v.sessionOf(d.Session.ID)
		if err != nil {
			return view{}, err
		}
		d.Under = &s
		f.Live = s.Status == pending
	}
	return view{frame: f, body: pages.Test(f, d)}, nil
}

// back returns the session from which the browser returns, if any. The address is a callback. The result
// token in it is not used: it is for the publisher's server.
func (v *visit) back() *operate.Session {
	id := v.query.Get("session_id")
	if id == "" {
		return nil
	}
	s, err := v.sessionOf(id)
	if err != nil {
		return nil // the address may be forged, and the page works without the session
	}
	return &s
}

// pending is the status of an active session.
const pending = "PENDING"

func (v *visit) testPath(integration string) string {
	return v.mine("test") + "?integration=" + url.QueryEscape(integration)
}

func sendTestEvent(v *visit) (next, error) {
	i, err := v.integration(v.form.Get("integration_id"))
	if err != nil {
		return next{}, err
	}
	sent, err := v.Operations.SendTestEvent(v.ctx, v.who(), i.ID, v.must("type"))
	if err != nil {
		return next{}, err
	}
	n := note{Text: "The event was sent, and your receiver accepted it.", Exchange: &sent, For: i.ID}
	if !sent.Delivered {
		n.Tone, n.Text = pages.Bad, "The event was sent, but your receiver did not accept it."
	}
	return next{path: v.testPath(i.ID), note: n}, nil
}

func startTestSession(v *visit) (next, error) {
	i, err := v.integration(v.form.Get("integration_id"))
	if err != nil {
		return next{}, err
	}
	callback := cmp.Or(v.must("callback_url"), v.BaseURL+v.mine("test"))
	started, err := v.Operations.StartTestSession(v.ctx, v.who(), i.ID, callback)
	return next{path: v.testPath(i.ID), note: note{Text: "The test session was started.", Session: &started,
		For: i.ID}}, err
}
