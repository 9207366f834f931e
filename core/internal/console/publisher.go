package console

import (
	"slices"
	"time"

	"github.com/verge-id/verge/core/internal/console/pages"
	"github.com/verge-id/verge/core/internal/passkey"
	"github.com/verge-id/verge/core/operate"
)

// day writes a time for a sentence.
func day(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04") }

func showPublishers(v *visit) (view, error) {
	found, err := v.Operations.Publishers(v.ctx, v.who(), v.named())
	if err != nil {
		return view{}, err
	}
	f := v.frame("Publishers")
	return view{frame: f, body: pages.Publishers(f,
		pages.PublishersData{Page: found, After: v.query.Get("after"), Name: v.named().Name})}, nil
}

func createPublisher(v *visit) (next, error) {
	made, err := v.Operations.CreatePublisher(v.ctx, v.who(), operate.PublisherInput{Name: v.text("name")})
	return next{path: pages.PublisherPath(made.ID), note: done("The publisher " + made.Name +
		" was created.")}, err
}

func showPublisher(v *visit) (view, error) {
	u, err := v.Operations.Passkeys(v.ctx, v.who(), v.publisher.ID, passkey.CountPage)
	if err != nil {
		return view{}, err
	}
	f := v.frame("Settings")
	return view{frame: f, body: pages.PublisherSettings(f, u)}, nil
}

func endPasskeys(v *visit) (next, error) {
	_, err := v.Operations.EndPasskeys(v.ctx, v.who(), v.publisher.ID)
	return next{path: v.mine("settings"),
		note: done("All passkeys that users have created so far have ended.")}, err
}

// mine returns the path of a page of this page's publisher.
func (v *visit) mine(parts ...string) string { return pages.PublisherPath(v.publisher.ID, parts...) }

func savePublisher(v *visit) (next, error) {
	version, err := v.version()
	if err != nil {
		return next{}, err
	}
	_, err = v.Operations.ChangePublisher(v.ctx, v.who(), v.publisher.ID, version,
		operate.PublisherInput{Name: v.text("name")})
	return next{path: v.mine("settings"), note: done("Saved.")}, err
}

func archivePublisher(v *visit) (next, error) {
	version, err := v.version()
	if err != nil {
		return next{}, err
	}
	_, err = v.Operations.ArchivePublisher(v.ctx, v.who(), v.publisher.ID, version)
	return next{path: v.mine("settings"), note: done("The publisher was archived.")}, err
}

func createLink(v *visit) (next, error) {
	made, err := v.Operations.CreateLink(v.ctx, v.who(), v.publisher.ID, v.must("name"),
		operate.Role(v.must("role")))
	return next{path: v.mine("settings"), note: note{Text: "The sign-in link was created.", Secret: made.Link,
		Label: "Sign-in link", Advice: "It works once, within 5 minutes."}}, err
}

func showOverview(v *visit) (view, error) {
	o, err := v.Operations.Overview(v.ctx, v.who(), v.publisher.ID)
	if err != nil {
		return view{}, err
	}
	found, err := v.Operations.Integrations(v.ctx, v.who(), v.publisher.ID,
		operate.Search{Cursor: operate.Cursor{Limit: lookedAt}})
	if err != nil {
		return view{}, err
	}
	methods, err := v.Operations.Methods(v.ctx, v.who())
	if err != nil {
		return view{}, err
	}
	d := pages.OverviewData{Overview: o, Dev: v.Dev,
		Sandbox: slices.ContainsFunc(methods, func(m operate.Method) bool { return m.Sandbox })}
	d.Integrations = append(found.Items, o.Active...)
	for _, i := range o.Active {
		if !i.Ready {
			d.NotReady = append(d.NotReady, i)
		}
	}
	f := v.frame("Overview")
	return view{frame: f, body: pages.Overview(f, d)}, nil
}

// lookedAt is the maximum number of integrations whose names the overview reads, including archived ones.
const lookedAt = 20
