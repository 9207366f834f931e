package console

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/verge-id/verge/core/internal/console/pages"
	"github.com/verge-id/verge/core/internal/timestamp"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/web"
)

func showKeys(v *visit) (view, error) {
	found, err := v.Operations.Keys(v.ctx, v.who(), v.publisher.ID, v.cursor())
	if err != nil {
		return view{}, err
	}
	if v.whole(found.Next) { // newest first; the store sorts them by their random ids
		found.Items = slices.Clone(found.Items)
		slices.SortStableFunc(found.Items, func(a, b operate.Key) int { return b.Created.Compare(a.Created) })
	}
	id := v.query.Get("integration")
	if v.form != nil {
		id = v.form.Get("integration_id")
	}
	all, first, err := v.chosen(id)
	if err != nil {
		return view{}, err
	}
	if id == "" || first.Archived != nil {
		first = mostInUse(all)
	}
	f := v.frame("Keys")
	return view{frame: f, body: pages.Keys(f, pages.KeysData{Page: found, After: v.query.Get("after"),
		Integrations: all, Chosen: id, First: first, BaseURL: v.BaseURL})}, nil
}

// until reads a field with a day, and returns its end.
func (v *visit) until(name string) *time.Time {
	text := v.must(name)
	if text == "" {
		return nil
	}
	t, err := time.Parse(time.DateOnly, text)
	t = t.Add(24 * time.Hour)
	if err != nil || !timestamp.Fits(t) {
		v.cannotRead(name, "Enter a day, such as 2026-11-20.")
		return nil
	}
	return &t
}

func createKey(v *visit) (next, error) {
	expires := v.until("expires")
	if id := v.form.Get("publisher_id"); id != "" && id != v.publisher.ID {
		return next{}, web.ErrNotFound
	}
	in := operate.KeyInput{Publisher: v.publisher.ID, Integration: v.must("integration_id"), Expires: expires}
	if in.Integration != "" {
		if _, err := v.integration(in.Integration); err != nil {
			return next{}, err
		}
	}
	made, err := v.operations().CreateKey(v.ctx, v.who(), in)
	n := note{Text: "The key was created.", Secret: made.Key, Label: "Secret key",
		Advice: "Your server sends it. Keep it out of your code and out of browsers."}
	if in.Integration != "" {
		n.Label, n.Advice = "Public key", "Pages of the integration's browser origins use it."
	}
	return next{path: v.mine("keys"), note: n}, err
}

func revokeKey(v *visit) (next, error) {
	k, err := v.Operations.RevokeKey(v.ctx, v.who(), v.form.Get("key"))
	return next{path: v.mine("keys"), note: done("The key that ends in " + k.Last4 + " was revoked.")}, err
}

func showDeliveries(v *visit) (view, error) {
	all, chosen, err := v.chosen(v.query.Get("integration"))
	if err != nil {
		return view{}, err
	}
	d := pages.DeliveriesData{After: v.query.Get("after"), Integrations: all}
	f := v.frame("Deliveries")
	if chosen != nil {
		d.Filter = operate.DeliveryQuery{Integration: chosen.ID, State: v.query.Get("state"),
			Type: v.query.Get("type"), Cursor: v.cursor()}
		d.Page, err = v.Operations.Deliveries(v.ctx, v.who(), d.Filter)
		if err != nil {
			return view{}, err
		}
		for _, e := range d.Items {
			f.Live = f.Live || underWay(v.now, e)
		}
	}
	return view{frame: f, body: pages.Deliveries(f, d)}, nil
}

func showUndelivered(v *visit) (view, error) {
	d, err := v.Operations.Undelivered(v.ctx, v.who())
	if err != nil {
		return view{}, err
	}
	f := v.frame("Undelivered")
	return view{frame: f, body: pages.Undelivered(f, d)}, nil
}

// underWay reports whether a delivery is still in progress.
func underWay(now time.Time, d operate.Delivery) bool {
	return d.State == operate.DeliveryWaiting && (d.Due == nil || d.Due.Sub(now) < 5*time.Minute)
}

func (v *visit) delivery() (operate.Delivery, error) {
	if _, err := v.integration(v.at["integration"]); err != nil {
		return operate.Delivery{}, err
	}
	return v.Operations.Delivery(v.ctx, v.who(), v.at["integration"], v.at["place"])
}

func showDelivery(v *visit) (view, error) {
	d, err := v.delivery()
	if err != nil {
		return view{}, err
	}
	f := v.frame(d.Type)
	f.Live = underWay(v.now, d)
	return view{frame: f, body: pages.Delivery(f, d)}, nil
}

func resend(v *visit) (next, error) {
	d, err := v.delivery()
	if err != nil {
		return next{}, err
	}
	sent, err := v.Operations.Resend(v.ctx, v.who(), d.Integration, v.at["place"])
	if err != nil {
		return next{}, err
	}
	return next{path: v.mine("deliveries", d.Integration, cmp.Or(sent.Place, d.Place)),
		note: done("The event is being resent. The response appears below.")}, nil
}

func showSessions(v *visit) (view, error) {
	all, _, err := v.chosen(v.query.Get("integration"))
	if err != nil {
		return view{}, err
	}
	d := pages.SessionsData{Integrations: all, Methods: operate.MethodsOf(v.Operations.Catalog),
		After: v.query.Get("after"), Filter: operate.FinishedQuery{Publisher: v.publisher.ID,
			Integration: v.query.Get("integration"), Outcome: v.query.Get("outcome"),
			Method: v.query.Get("method"), From: v.query.Get("from"), To: v.query.Get("to"),
			Cursor: v.cursor()}}
	d.Page, err = v.Operations.FinishedSessions(v.ctx, v.who(), d.Filter)
	status, err := v.misfiltered("sessions", err)
	if err != nil {
		return view{}, err
	}
	f := v.frame("Sessions")
	return view{frame: f, body: pages.Sessions(f, d), status: status}, nil
}

// misfiltered shows invalid values of a filter on its page. It returns any other error.
func (v *visit) misfiltered(action string, err error) (status int, other error) {
	var invalid *web.Error
	if errors.As(err, &invalid) && invalid.Code == web.InvalidRequest && v.req.Method != "POST" {
		v.rejection = pages.Form{Action: action, Values: v.query, Problems: sentences(invalid.Details)}
		return 400, nil
	}
	return 200, err
}

// session returns a session of this page's publisher.
func (v *visit) sessionOf(id string) (operate.Session, error) {
	s, err := v.Operations.Session(v.ctx, v.who(), id)
	if err == nil && s.Publisher != v.publisher.ID {
		return operate.Session{}, web.ErrNotFound
	}
	return s, err
}

func findSession(v *visit) (next, error) {
	s, err := v.sessionOf(v.must("session_id"))
	if errors.Is(err, web.ErrNotFound) {
		err = &web.Error{Code: web.InvalidRequest, Details: []web.FieldError{{Field: "session_id",
			Code: "not_found", Message: "This publisher has no such session. Session ids begin with " +
				"svc_sess_. A session is forgotten when its outcome is no longer kept."}}}
	}
	if err != nil {
		return next{}, err
	}
	return next{path: v.mine("sessions", s.ID), note: done("Session found.")}, nil
}

func showSession(v *visit) (view, error) {
	s, err := v.sessionOf(v.at["session"])
	if err != nil {
		return view{}, err
	}
	i, err := v.integration(s.Integration)
	if err != nil {
		return view{}, err
	}
	f := v.frame("Session")
	f.Live = s.Status == pending
	for _, e := range s.Events {
		f.Live = f.Live || underWay(v.now, e)
	}
	return view{frame: f, body: pages.Session(f, s, i.Name)}, nil
}

func showUsage(v *visit) (view, error) {
	d, err := v.usage()
	status, err := v.misfiltered("usage", err)
	if err != nil {
		return view{}, err
	}
	f := v.frame("Usage")
	return view{frame: f, body: pages.Usage(f, d), status: status}, nil
}

func (v *visit) usage() (pages.UsageData, error) {
	id := v.query.Get("integration")
	all, chosen, err := v.chosen(id)
	if err != nil || chosen == nil {
		return pages.UsageData{}, err
	}
	d := pages.UsageData{Integrations: all, From: v.query.Get("from"), To: v.query.Get("to")}
	if id == "" {
		d.Days, d.More, err = v.Operations.PublisherUsage(v.ctx, v.who(), v.publisher.ID, d.From, d.To)
	} else {
		d.Integration = *chosen
		d.Days, err = v.Operations.Usage(v.ctx, v.who(), id, d.From, d.To)
	}
	if err != nil {
		return d, err
	}
	if len(d.Days) > 0 {
		d.From, d.To = d.Days[0].Day.String(), d.Days[len(d.Days)-1].Day.String()
	}
	return d, nil
}

func showUsageCSV(v *visit) (view, error) {
	d, err := v.usage()
	if err != nil {
		return view{}, err
	}
	if len(d.Integrations) == 0 {
		return view{}, web.ErrNotFound
	}
	q := operate.UsageQuery{Integration: d.Integration.ID}
	if q.Integration == "" {
		q.Publisher = v.publisher.ID
	}
	text, err := q.CSV(d.Days, d.More)
	if err != nil {
		return view{}, err
	}
	h := header(false)
	h.Set("Content-Type", "text/csv; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="usage-`+d.From+`-`+d.To+`.csv"`)
	return view{raw: &web.Response{Status: 200, Header: h, Body: text}}, nil
}

func showMembers(v *visit) (view, error) {
	found, err := v.Operations.Members(v.ctx, v.who(), v.publisher.ID, v.cursor())
	if err != nil {
		return view{}, err
	}
	if v.whole(found.Next) {
		found.Items = slices.Clone(found.Items)
		slices.SortStableFunc(found.Items, func(a, b operate.Member) int {
			return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
		})
	}
	invited, err := v.Operations.Invitations(v.ctx, v.who(), v.publisher.ID,
		operate.Cursor{After: v.query.Get("invited"), Limit: operate.MaxLimit})
	if err != nil {
		return view{}, err
	}
	f := v.frame("Members")
	return view{frame: f, body: pages.Members(f, pages.MembersData{Page: found,
		After: v.query.Get("after"), Invited: invited,
		InvitedAfter: v.query.Get("invited")})}, nil
}

func inviteMember(v *visit) (next, error) {
	made, err := v.Operations.Invite(v.ctx, v.who(), v.publisher.ID, v.must("name"),
		operate.Role(v.must("role")))
	return next{path: v.mine("members"),
		note: note{Text: "The invitation was created. Send the link to the person yourself.",
			Secret: made.Link, Label: "Invitation link", Advice: "It works once, within 24 hours."}}, err
}

func withdrawInvitation(v *visit) (next, error) {
	err := v.Operations.WithdrawInvitation(v.ctx, v.who(), v.publisher.ID, v.form.Get("invitation"))
	return next{path: v.mine("members"), note: done("The invitation was withdrawn.")}, err
}

// afterwards returns the next page after a change of a member, who may have changed their own rights.
func (v *visit) afterwards(member, text string) next {
	if member == v.who().ID {
		return next{path: pages.Root, note: done(text)}
	}
	return next{path: v.mine("members"), note: done(text)}
}

func changeRole(v *visit) (next, error) {
	m, err := v.Operations.ChangeRole(v.ctx, v.who(), v.form.Get("member"), operate.Role(v.must("role")))
	return v.afterwards(m.ID, m.Name+" is "+string(m.Role)+" now."), err
}

func signOutMember(v *visit) (next, error) {
	m, err := v.Operations.SignOutMember(v.ctx, v.who(), v.form.Get("member"))
	return v.afterwards(m.ID, m.Name+" is signed out everywhere."), err
}

func removeMember(v *visit) (next, error) {
	err := v.Operations.RemoveMember(v.ctx, v.who(), v.form.Get("member"))
	return v.afterwards(v.form.Get("member"), "The member was removed, and their sessions have ended."), err
}

func showAudit(v *visit) (view, error) {
	of, here := "", pages.Path("audit")
	if v.publisher != nil {
		of, here = v.publisher.ID, v.mine("audit")
	}
	found, err := v.Operations.Audit(v.ctx, v.who(), of, v.cursor())
	if err != nil {
		return view{}, err
	}
	f := v.frame("Audit")
	return view{frame: f, body: pages.Audit(f,
		pages.AuditData{Page: found, After: v.query.Get("after"), Here: here})}, nil
}

// reportDays returns the days of the query, or the days of the last month.
func (v *visit) reportDays() (from, to string) {
	firstOfMonth := time.Date(v.now.UTC().Year(), v.now.UTC().Month(), 1, 0, 0, 0, 0, time.UTC)
	return cmp.Or(v.query.Get("from"), firstOfMonth.AddDate(0, -1, 0).Format(time.DateOnly)),
		cmp.Or(v.query.Get("to"), firstOfMonth.AddDate(0, 0, -1).Format(time.DateOnly))
}

func showReport(v *visit) (view, error) {
	f := v.frame("Report")
	d := pages.ReportData{Ready: v.Reports}
	d.From, d.To = v.reportDays()
	return view{frame: f, body: pages.Report(f, d)}, nil
}

// showReportArchive sends one archive, so that the files and their signatures belong to one report.
func showReportArchive(v *visit) (view, error) {
	in := operate.ReportQuery{}
	in.From, in.To = v.reportDays()
	if v.publisher != nil {
		in.Publisher = v.publisher.ID
	}
	r, err := v.Operations.Report(v.ctx, v.who(), in)
	if err != nil {
		return view{}, err
	}
	h := header(false)
	h.Set("Content-Type", "application/x-tar")
	h.Set("Content-Disposition", `attachment; filename="report-`+in.From+`-`+in.To+`.tar"`)
	return view{raw: &web.Response{Status: 200, Header: h, Body: r.Archive(v.now)}}, nil
}

func showOperators(v *visit) (view, error) {
	found, err := v.Operations.OperatorTokens(v.ctx, v.who(), v.cursor())
	if err != nil {
		return view{}, err
	}
	f := v.frame("Operator tokens")
	return view{frame: f, body: pages.Operators(f,
		pages.OperatorsData{Page: found, After: v.query.Get("after")})}, nil
}

func createOperatorToken(v *visit) (next, error) {
	expires := v.until("expires")
	made, err := v.operations().CreateOperatorToken(v.ctx, v.who(), v.must("name"),
		operate.Role(v.must("role")), expires)
	return next{path: pages.Path("operators"), note: note{Text: "The token was created.", Secret: made.Token,
		Label:  "Operator token",
		Advice: "It gives access to all publishers. Share it only with its owner."}}, err
}

func revokeOperatorToken(v *visit) (next, error) {
	t, err := v.Operations.RevokeOperatorToken(v.ctx, v.who(), v.form.Get("id"))
	return next{path: pages.Path("operators"), note: done("The token " + t.Name + " was revoked.")}, err
}

func showMethods(v *visit) (view, error) {
	methods, err := v.Operations.Methods(v.ctx, v.who())
	if err != nil {
		return view{}, err
	}
	lists, err := v.Operations.TrustLists(v.ctx, v.who())
	if err != nil {
		return view{}, err
	}
	f := v.frame("Methods")
	return view{frame: f, body: pages.Methods(f, methods, lists)}, nil
}
