package console

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/console/pages"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/web"
)

func showIntegrations(v *visit) (view, error) {
	found, err := v.Operations.Integrations(v.ctx, v.who(), v.publisher.ID, v.named())
	if err != nil {
		return view{}, err
	}
	if v.whole(found.Next) {
		found.Items = byName(found.Items)
	}
	f := v.frame("Integrations")
	return view{frame: f, body: pages.Integrations(f,
		pages.IntegrationsData{Page: found, After: v.query.Get("after"), Name: v.named().Name})}, nil
}

// integration returns an integration of this publisher. One of another publisher is not found.
func (v *visit) integration(id string) (operate.Integration, error) {
	i, err := v.Operations.Integration(v.ctx, v.who(), id)
	if err == nil && i.PublisherID != v.publisher.ID {
		return operate.Integration{}, web.ErrNotFound
	}
	return i, err
}

// changed returns the integration in the path, and the version that the form changes.
func (v *visit) changed() (i operate.Integration, version string, err error) {
	if i, err = v.integration(v.at["integration"]); err == nil {
		version, err = v.version()
	}
	return i, version, err
}

func showNewIntegration(v *visit) (view, error) {
	methods, err := v.Operations.Methods(v.ctx, v.who())
	if err != nil {
		return view{}, err
	}
	d := pages.IntegrationData{Methods: methods}
	d.Integration.Integration = integration.New("", "")
	// A new integration starts with the sandbox, so test sessions work. In production there is no sandbox,
	// and the first method is preselected.
	n := max(slices.IndexFunc(methods, func(m operate.Method) bool { return m.Sandbox }), 0)
	if n < len(methods) {
		d.Method = methods[n].Name
	}
	f := v.frame("New integration")
	f.Script = true
	return view{frame: f, body: pages.NewIntegration(f, d)}, nil
}

func showIntegration(v *visit) (view, error) {
	i, err := v.integration(v.at["integration"])
	if err != nil {
		return view{}, err
	}
	methods, err := v.Operations.Methods(v.ctx, v.who())
	if err != nil {
		return view{}, err
	}
	f := v.frame(i.Name)
	f.Script = f.May(operate.ChangeIntegration)
	return view{frame: f, body: pages.Integration(f,
		pages.IntegrationData{Integration: i, Methods: methods})}, nil
}

// input reads the fields of an integration. A field that is not in the form keeps its value.
func (v *visit) input(present operate.Integration) (operate.IntegrationInput, error) {
	in := operate.IntegrationInput{Publisher: v.publisher.ID, Name: v.text("name")}
	if err := v.readMethods(&in); err != nil {
		return in, err
	}
	for _, s := range integration.Settings {
		if s.Section == "methods" {
			continue
		}
		switch field := s.Of(&in).(type) {
		case **string:
			*field = v.text(s.Name)
		case **int:
			*field = v.number(s.Name)
		case **[]string:
			*field = v.list(s.Name, "\n")
		}
	}
	address, off := v.text("webhook_url"), v.text("webhook_off")
	isOff := off != nil && *off != ""
	if address != nil && *address != present.Webhook.URL || off != nil && isOff != present.Webhook.Off {
		in.WebhookInput = &operate.WebhookInput{URL: address}
		if off != nil {
			in.Off = &isOff
		}
		if isOff && address != nil && *address == present.Webhook.URL {
			in.URL = nil // the form still has the URL that is removed
		}
	}
	if id := v.form.Get("publisher_id"); id != "" && id != v.publisher.ID {
		return in, web.ErrNotFound
	}
	return in, nil
}

// number reads a field that is a number. An empty field is 0, which means the default.
func (v *visit) number(name string) *int {
	text := v.text(name)
	if text == nil {
		return nil
	}
	n, err := strconv.Atoi(*text)
	if *text != "" && err != nil {
		v.cannotRead(name, "The "+strings.ReplaceAll(name, "_", " ")+" must be a whole number, such as 18.")
		return nil
	}
	return &n
}

// errMoved returns the form with a method at another place, without saving it.
var errMoved = errors.New("console: a method has moved in the form")

// readMethods reads the methods of a form, and their settings. A form without methods does not change them.
func (v *visit) readMethods(in *operate.IntegrationInput) error {
	methods, err := v.Operations.Methods(v.ctx, v.who())
	if err != nil {
		return err
	}
	if move := v.form.Get(pages.MethodsMove); move != "" {
		order, name := pages.Moved(v.form.Get(pages.MethodsOrder), move, methods)
		v.form.Set(pages.MethodsOrder, order)
		v.note = done("Moved " + name + ". Save to keep the order.")
		return errMoved
	}
	// A program may list the methods instead, separated by commas (contract 45).
	if names := v.list("methods", ","); names != nil && len(*names) > 0 {
		in.Methods = names
		return nil
	}
	names, ok := pages.ReadMethods(v.form, methods)
	if !ok {
		return nil
	}
	in.Methods = &names
	if len(names) == 0 {
		v.cannotRead("methods", "Switch on at least one method.")
	}
	settings, wrong := pages.ReadOverrides(v.form, methods, names)
	for _, field := range slices.Sorted(maps.Keys(wrong)) {
		v.cannotRead(field, wrong[field])
	}
	in.MethodSettings = &settings
	return nil
}

// list reads a field with several values, without the empty ones.
func (v *visit) list(name, between string) *[]string {
	text := v.text(name)
	if text == nil {
		return nil
	}
	all := []string{}
	for each := range strings.SplitSeq(*text, between) {
		if each = strings.TrimSpace(each); each != "" {
			all = append(all, each)
		}
	}
	return &all
}

// secretNote returns a message, with the webhook secret if one was created.
func secretNote(text, secret string) note {
	if secret == "" {
		return done(text)
	}
	return note{Text: text, Secret: secret, Label: "Webhook secret",
		Advice: "Your receiver needs it to verify signatures."}
}

func createIntegration(v *visit) (next, error) {
	in, err := v.input(operate.Integration{})
	if err != nil {
		return next{}, err
	}
	made, err := v.operations().CreateIntegration(v.ctx, v.who(), in)
	if err != nil {
		return next{}, err
	}
	path := v.mine("integrations", made.ID)
	if made.Webhook.URL != "" {
		path = v.mine("integrations", made.ID, "webhook")
	}
	return next{path: path, note: secretNote("The integration "+made.Name+" was created.", made.Secret)}, nil
}

func saveIntegration(v *visit) (next, error) {
	i, err := v.integration(v.at["integration"])
	if err != nil {
		return next{}, err
	}
	in, err := v.input(i)
	if err != nil {
		return next{}, err
	}
	in.Publisher = ""
	version, err := v.version()
	if err != nil {
		return next{}, err
	}
	saved, err := v.operations().ChangeIntegration(v.ctx, v.who(), i.ID, version, in)
	text := "Saved."
	if err == nil && i.Ready && !saved.Ready {
		text = "Saved. The webhook has changed, so run the signed test again before the next " +
			"session in production."
	}
	path := v.mine("integrations", i.ID)
	if saved.Secret != "" || v.page.name == "webhook" {
		path = v.mine("integrations", i.ID, "webhook") // the page of the webhook test
	}
	return next{path: path, note: secretNote(text, saved.Secret)}, err
}

func archiveIntegration(v *visit) (next, error) {
	i, version, err := v.changed()
	if err != nil {
		return next{}, err
	}
	_, err = v.Operations.ArchiveIntegration(v.ctx, v.who(), i.ID, version)
	return next{path: v.mine("integrations", i.ID), note: done("The integration was archived.")}, err
}

func showWebhook(v *visit) (view, error) {
	i, err := v.integration(v.at["integration"])
	if err != nil {
		return view{}, err
	}
	d := pages.WebhookData{Integration: i}
	if v.note.For == i.ID {
		d.Report, d.At, d.OfStaged = v.note.Report, v.note.At, v.note.Staged
	}
	f := v.frame("Webhook of " + i.Name)
	return view{frame: f, body: pages.Webhook(f, d)}, nil
}

func showOpenID(v *visit) (view, error) {
	i, err := v.integration(v.at["integration"])
	if err != nil {
		return view{}, err
	}
	keys, err := v.Operations.SecretKeys(v.ctx, v.who(), v.publisher.ID,
		operate.Cursor{Limit: operate.MaxLimit})
	if err != nil {
		return view{}, err
	}
	f := v.frame("Connect " + i.Name + " with OpenID")
	return view{frame: f, body: pages.OpenID(f, pages.OpenIDData{Integration: i, Secrets: keys})}, nil
}

func testWebhook(v *visit) (next, error) { return v.test(false) }

func testStaged(v *visit) (next, error) { return v.test(true) }

func (v *visit) test(staged bool) (next, error) {
	i, err := v.integration(v.at["integration"])
	if err != nil {
		return next{}, err
	}
	report, err := v.Operations.TestWebhook(v.ctx, v.who(), i.ID, staged)
	if err != nil {
		return next{}, err
	}
	n := note{Text: "Ready. Your receiver checks signatures correctly.", Report: &report,
		Staged: staged, For: i.ID}
	switch {
	case report.Promoted && i.SecretAlone():
		n.Text = "Ready. The staged webhook is now active. After a minute, the old secret is no longer " +
			"used, and your receiver can stop accepting it."
	case report.Promoted:
		n.Text = "Ready. The staged webhook is now active and receives all events."
	case report.Ready && staged:
		n.Text = "The test passed."
	case !report.Ready && len(report.Probes) == 1 && report.Probes[0].Status == 0:
		n.Tone, n.Text = pages.Bad, "Not ready: your receiver did not respond. See below how to fix it."
	case !report.Ready:
		failed := 0
		for _, p := range report.Probes {
			if !p.Passed {
				failed++
			}
		}
		n.Tone, n.Text = pages.Bad, "Not ready: "+strconv.Itoa(failed)+" of "+
			strconv.Itoa(len(report.Probes))+" probes failed. See below how to fix them."
	}
	return next{path: v.mine("integrations", i.ID, "webhook"), note: n}, nil
}

func stageWebhook(v *visit) (next, error) {
	i, version, err := v.changed()
	if err != nil {
		return next{}, err
	}
	changed, err := v.Operations.StageWebhook(v.ctx, v.who(), i.ID, version,
		operate.WebhookInput{URL: v.text("webhook_url"), NewSecret: v.must("secret") != "keep"})
	text := "The change is staged. Configure it in your receiver, then run the test."
	if changed.Secret != "" && changed.SecretAlone() {
		text = "The change is staged. Configure your receiver to accept both the current secret and " +
			"this one, then run the test."
	}
	return next{path: v.mine("integrations", i.ID, "webhook"), note: secretNote(text, changed.Secret)}, err
}

func dropStaged(v *visit) (next, error) {
	i, version, err := v.changed()
	if err != nil {
		return next{}, err
	}
	_, err = v.Operations.DropStaged(v.ctx, v.who(), i.ID, version)
	return next{path: v.mine("integrations", i.ID, "webhook"),
		note: done("The staged change was discarded.")}, err
}

func rotateSecret(v *visit) (next, error) {
	i, version, err := v.changed()
	if err != nil {
		return next{}, err
	}
	changed, err := v.Operations.RotateSecret(v.ctx, v.who(), i.ID, version, false)
	return next{path: v.mine("integrations", i.ID, "webhook"), note: secretNote(
		"The secret was replaced. The old secret is no longer used.", changed.Secret)}, err
}
