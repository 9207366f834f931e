package cli

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/verge-id/verge/cmd/verge/internal/adminclient"
	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/cmd/verge/internal/words"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/edge/egress"
)

// oneMethod selects a method of a configuration.
type oneMethod struct {
	Name   string `arg:"" help:"The method."`
	Config string `required:"" type:"path" placeholder:"FILE" env:"VERGE_CONFIG" help:"Configuration file (TOML). Only the method's settings are used."`
}

// read returns a plan with the method alone, and the method.
func (c *oneMethod) read(p *program) (plan, method.Entry, error) {
	checked, err := config.ReadMethod(&p.System, c.Config, c.Name)
	if err != nil {
		return plan{}, method.Entry{}, misuse(err)
	}
	pl := plan{Plan: checked, now: p.Now, random: p.Random}
	e, _ := pl.methods().Find(c.Name)
	return pl, e, nil
}

// listSource selects lists of a method, and their source.
type listSource struct {
	oneMethod
	List string `placeholder:"NAME" help:"Only this list: its name or position. Default: all lists of the method."`
	From string `type:"path" placeholder:"FILE" help:"Verify this file instead of fetching the list. Needs --list if the method has several."`
	JSON bool   `help:"Print JSON."`
}

// verifiedList is a verified list, or the error.
type verifiedList struct {
	input operate.TrustListInput
	used  int // certificates that the method can use
	list  method.TrustList
	err   error
}

// verified fetches and verifies the lists.
func (c *listSource) verified(ctx context.Context, p *program) (all []verifiedList, err error) {
	pl, e, err := c.read(p)
	if err != nil {
		return nil, err
	}
	lists := e.Lists()
	if c.List != "" {
		lists = slices.DeleteFunc(lists, func(l method.TrustList) bool { return l.Name != c.List })
	}
	switch {
	case len(lists) == 0 && c.List != "":
		return nil, usagef("%s has no trusted list %q; see trust_lists in %s", c.Name, c.List, c.Config)
	case len(lists) == 0:
		return nil, usagef("%s has no trusted lists; see trust_lists in `verge serve --example`", c.Name)
	case len(lists) > 1 && c.From != "":
		return nil, usagef("--from is for one list, and %s has %d; choose with --list", c.Name, len(lists))
	}
	for _, l := range lists {
		from := l
		if c.From != "" {
			from.URL, from.File = "", c.From
		}
		v := pl.verifyList(ctx, p, e, from)
		v.list, v.input.Configuration = l, l.Digest()
		all = append(all, v)
	}
	return all, nil
}

// verifyList fetches a list, or reads its file, and verifies it. A list after its grace period is invalid.
func (pl *plan) verifyList(ctx context.Context, p *program, e method.Entry, l method.TrustList) verifiedList {
	source := edge.TrustListSource{Fetch: egress.New(pl.Egress), Now: pl.now,
		ReadFile: p.readFile}
	in, err := source.Get(ctx, e.Name, l)
	v := verifiedList{input: in, list: l, err: err}
	if err != nil {
		v.err = errors.New(err.Error() + pl.advice(e.Name, err))
		return v
	}
	for _, text := range in.Certificates {
		if der, err := base64.StdEncoding.DecodeString(text); err == nil && e.Of.IsAnchor(der) {
			v.used++
		}
	}
	if !l.Counts(in.NextUpdate, pl.now()) {
		v.err = fmt.Errorf("its next update was due on %s, and its grace of %s is over; fetch a newer list",
			words.When(in.NextUpdate), words.Roughly(l.Grace))
	}
	return v
}

// readFile reads at most limit bytes of a file.
func (p *program) readFile(path string, limit int) ([]byte, error) {
	f, err := p.FS.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, int64(limit)))
}

// checkList adds a list to the report of `verge method check`.
func (pl *plan) checkList(
	ctx context.Context, p *program, r *method.Report, e method.Entry, l method.TrustList,
) {
	v := pl.verifyList(ctx, p, e, l)
	if v.err != nil {
		r.Bad("trusted list %s: %v", l.Name, v.err)
		return
	}
	r.Fact("trusted list "+l.Name, fmt.Sprintf("number %d of %s, signed by %s (%s)", v.input.Sequence,
		v.input.Issuer, v.input.Signer, v.input.Fingerprint))
	switch {
	case v.used == 0:
		r.Bad("trusted list %s has no certificate that the method can use (%d were skipped)", l.Name,
			v.skipped())
	case pl.now().After(v.input.NextUpdate):
		r.Warn("trusted list %s is late: its next update was due on %s", l.Name,
			words.When(v.input.NextUpdate))
	default:
		r.Good("trusted list %s is valid: %d certificates are used, %d are skipped, next update %s", l.Name,
			v.used, v.skipped(), words.When(v.input.NextUpdate))
	}
}

// skipped returns the number of certificates that are not used.
func (v verifiedList) skipped() int { return v.input.Skipped + len(v.input.Certificates) - v.used }

// shownList is a verified list as `verge method list-fetch --json` prints it.
type shownList struct {
	Method      string     `json:"method"`
	Name        string     `json:"name"`
	Good        bool       `json:"good"`
	Error       string     `json:"error,omitempty"`
	Sequence    int        `json:"sequence,omitempty"`
	Issued      *time.Time `json:"issued,omitempty"`
	NextUpdate  *time.Time `json:"next_update,omitempty"`
	Issuer      string     `json:"issuer,omitempty"`
	Signer      string     `json:"signer,omitempty"`
	Fingerprint string     `json:"signer_fingerprint,omitempty"`
	Document    string     `json:"document,omitempty"`
	Entries     int        `json:"entries"`
	Skipped     int        `json:"skipped"`
}

func (v verifiedList) shown(of string) shownList {
	s := shownList{Method: of, Name: v.list.Name, Good: v.err == nil}
	if v.err != nil {
		s.Error = v.err.Error()
		return s
	}
	in := v.input
	s.Sequence, s.Issued, s.NextUpdate, s.Issuer = in.Sequence, &in.Issued, &in.NextUpdate, in.Issuer
	s.Signer, s.Fingerprint, s.Document = in.Signer, in.Fingerprint, in.Document
	s.Entries, s.Skipped = v.used, v.skipped()
	return s
}

type methodListFetchCmd struct{ listSource }

// Help is shown by `verge method list-fetch --help`.
func (methodListFetchCmd) Help() string {
	return `Fetches the trusted lists of a method as the server would, and verifies the
signature, the signer and the dates. The lists are not stored, and no Verge server
is used: the number is not compared with the number of the stored list.

The exit code is 0 if all lists are valid, 1 if one is not, and 2 if the
configuration is invalid.

Examples:

    verge method list-fetch eu-wallet --config /etc/verge/verge.toml
    verge method list-fetch eu-wallet --config verge.toml --list eu --from list.xml`
}

func (c *methodListFetchCmd) Run(ctx context.Context, p *program) error {
	all, err := c.verified(ctx, p)
	if err != nil {
		return err
	}
	shown, good := []shownList{}, true
	for _, v := range all {
		shown, good = append(shown, v.shown(c.Name)), good && v.err == nil
	}
	return failUnless(good, show(p, c.JSON, shown, func() error { return printLists(p, shown) }))
}

func printLists(p *program, all []shownList) error {
	for n, l := range all {
		if n > 0 {
			fmt.Fprintln(p.stdout)
		}
		list := facts{{"list", l.Name + " of method " + l.Method}}
		if !l.Good {
			list.add("rejected", l.Error)
		} else {
			list.add("operator", l.Issuer)
			list.add("number", strconv.Itoa(l.Sequence))
			list.add("issued", words.When(*l.Issued))
			list.add("next update", words.When(*l.NextUpdate))
			list.add("signer", l.Signer)
			list.add("fingerprint", l.Fingerprint)
			list.add("certificates", fmt.Sprintf("%d used, %d skipped", l.Entries, l.Skipped))
		}
		if err := list.print(p); err != nil {
			return err
		}
	}
	return nil
}

type methodListLoadCmd struct {
	listSource
	serverFlags
}

// Help is shown by `verge method list-load --help`.
func (methodListLoadCmd) Help() string {
	return `For a Worker, which cannot fetch trusted lists itself: fetches the lists of a method
on this machine, verifies them, and loads them through the operators' API. Run it at
least as often as the lists are updated, for example once a day. All other servers
fetch their lists themselves and reject this request.

The settings of the lists must be the same here and in the Worker. A list with a
lower number than the stored one is rejected.

Example:

    verge method list-load eu-wallet --config worker.toml --admin-url https://admin.example.com`
}

func (c *methodListLoadCmd) Run(ctx context.Context, p *program) error {
	all, err := c.verified(ctx, p)
	if err != nil {
		return err
	}
	client, err := c.client(p)
	if err != nil {
		return err
	}
	loaded, good := []operate.TrustList{}, true
	for _, v := range all {
		var l *operate.TrustList
		if err = v.err; err == nil {
			l, err = adminclient.Do(ctx, client, operate.LoadTrustList, v.input)
		}
		if err != nil {
			fmt.Fprintf(p.stderr, "trusted list %s was not loaded: %v\n", v.list.Name, err)
			good = false
			continue
		}
		loaded = append(loaded, *l)
	}
	return failUnless(good, show(p, c.JSON, loaded, func() error {
		if len(loaded) == 0 && !good {
			return nil // no table without rows under the errors
		}
		return printStoredLists(p, loaded)
	}))
}

type methodListShowCmd struct {
	asking
}

// Help is shown by `verge method list-show --help`.
func (methodListShowCmd) Help() string {
	return `STATE is missing (not stored), damaged (the stored list is not authentic), good,
late (its next update is due) or too_old (its grace period is over, and its
certificates are no longer accepted).

Example:

    verge method list-show`
}

func (c *methodListShowCmd) Run(ctx context.Context, p *program) error {
	return list(ctx, p, c, operate.ListTrustLists, func(all []operate.TrustList) error {
		return printStoredLists(p, all)
	})
}

const listHeads = "METHOD|LIST|STATE|NUMBER|CERTIFICATES|NEXT UPDATE|FETCHED|SOURCE"

func printStoredLists(p *program, all []operate.TrustList) error {
	return printTable(p, listHeads, listRows(all))
}

func listRows(all []operate.TrustList) (rows [][]string) {
	for _, l := range all {
		rows = append(rows, []string{l.Method, l.Name, l.State, strconv.FormatUint(l.Sequence, 10),
			strconv.Itoa(l.Entries), whenever(l.NextUpdate), whenever(l.Fetched), l.Source})
	}
	return rows
}

// listState returns the state of a stored list in words.
func listState(l operate.TrustList) string {
	switch l.State {
	case operate.ListMissing:
		return "not stored yet; the server fetches it when it starts"
	case operate.ListDamaged:
		return "the stored list is not authentic; the server fetches it again"
	}
	text := fmt.Sprintf("number %d, %s, next update %s", l.Sequence,
		words.HowMany(l.Entries, "certificate"), words.When(*l.NextUpdate))
	switch l.State {
	case operate.ListLate:
		return "late: " + text
	case operate.ListTooOld:
		return "too old, so its certificates are not accepted: " + text
	}
	return text
}
