package api

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
)

// archive archives the integration of pub_a, or brings it back.
func (w *fixture) archive(t *testing.T, archived bool) {
	t.Helper()
	v, err := w.Directory.ReadIntegration(ctx, testUUID)
	coretest.Must(t, err)
	v.Value.Archived = nil
	if archived {
		v.Value.Archived = new(time.Time)
	}
	_, err = w.Directory.SaveIntegration(ctx, v.Value, integration.Secrets{}, v.Version)
	coretest.Must(t, err)
}

// Contract 46: to start, an archived integration does not exist. Its active sessions continue normally.
func TestStart_ArchivedIntegration(t *testing.T) {
	w := newFixture(t)
	page := "https://www.publisher.example"
	id, result := w.completed(t)
	text, err := id.Format(w.API.Sealer)
	coretest.Must(t, err)
	unknown := strings.Replace(startBody(), testUUID, "22222222-4d4e-475f-906b-2f11c5eca7bd", 1)
	_, missing := w.ask((*API).Start, web.StartPath, bearer(w.sk), unknown)

	w.archive(t, true)
	_, e := w.ask((*API).Start, web.StartPath, bearer(w.sk), startBody())
	if code(e) != web.NotFound || e.Message != missing.Message {
		t.Errorf("contract 46: with the secret key: %v, of an unknown one: %v", e, missing)
	}
	public := startBody(`"public_key":"` + w.pk + `"`)
	if _, e := w.ask((*API).Start, web.StartPath, nil, public); code(e) != web.NotFound {
		t.Errorf("contract 46: with its public key: %v", e)
	}
	if _, e := w.ask((*API).Start, web.StartPath, web.Header{"Origin": {page}}, public); code(
		e,
	) != web.Forbidden {
		t.Errorf("contract 46: from its page: %v", e)
	}
	if _, e := w.ask((*API).Reconcile, web.SessionsPath+text, bearer(w.sk), ""); e != nil {
		t.Errorf("contract 46: its session is not shown: %v", e)
	}
	if _, e := w.ask((*API).Validate, web.ValidatePath, bearer(w.sk), `{"result_token":"`+result+`"}`); e != nil {
		t.Errorf("contract 46: the result of its session: %v", e)
	}

	w.archive(t, false)
	if _, e := w.ask((*API).Start, web.StartPath, bearer(w.sk), startBody()); e != nil {
		t.Errorf("contract 46: brought back: %v", e)
	}
}

// Contract 46: keys of an archived publisher are rejected, here immediately and on other instances within 5
// seconds.
func TestKeysOfAnArchivedPublisher(t *testing.T) {
	w := newFixture(t)
	id, result := w.completed(t)
	text, err := id.Format(w.API.Sealer)
	coretest.Must(t, err)
	_, unknown := w.ask(
		(*API).Start,
		web.StartPath,
		bearer(w.newKey(t, integration.SecretPrefix)),
		startBody(),
	)
	elsewhere := *w.API
	elsewhere.Directory = integration.NewDirectory(w.Host.Host)
	other := &fixture{API: &elsewhere, Host: w.Host, Limiter: w.Limiter}
	if _, e := other.ask((*API).Start, web.StartPath, bearer(w.sk), startBody()); e != nil {
		t.Fatal(e)
	}
	p, err := w.Directory.ReadPublisher(ctx, "pub_a")
	coretest.Must(t, err)
	p.Value.Archived = new(time.Time)
	version, err := w.Directory.SavePublisher(ctx, p.Value, p.Version)
	coretest.Must(t, err)
	w.Clock.Advance(5 * time.Second)
	for name, at := range map[string]*fixture{"here": w, "elsewhere": other} {
		_, e := at.ask((*API).Start, web.StartPath, bearer(w.sk), startBody())
		if code(e) != web.Unauthorized || e.Message != unknown.Message {
			t.Errorf("contract 46: %s start: %v, with an unknown key: %v", name, e, unknown)
		}
		_, public := at.ask((*API).Start, web.StartPath, nil, startBody(`"public_key":"`+w.pk+`"`))
		_, reconcile := at.ask((*API).Reconcile, web.SessionsPath+text, bearer(w.sk), "")
		_, validate := at.ask(
			(*API).Validate,
			web.ValidatePath,
			bearer(w.sk),
			`{"result_token":"`+result+`"}`,
		)
		for _, e := range []*web.Error{public, reconcile, validate} {
			if code(e) != web.Unauthorized {
				t.Errorf("contract 46: %s: %v", name, e)
			}
		}
	}
	body := strings.Replace(startBody(), testUUID, otherUUID, 1)
	if _, e := w.ask((*API).Start, web.StartPath, bearer(w.otherSK), body); e != nil {
		t.Errorf("contract 46: another publisher's key: %v", e)
	}

	p.Value.Archived = nil
	_, err = w.Directory.SavePublisher(ctx, p.Value, version)
	coretest.Must(t, err)
	if _, e := w.ask((*API).Validate, web.ValidatePath, bearer(w.sk), `{"result_token":"`+result+`"}`); e != nil {
		t.Errorf("contract 46: brought back: %v", e)
	}
}

// A forged publisher record, which this service did not write, is rejected.
func TestKey_ForgedPublisherRecord(t *testing.T) {
	w := newFixture(t)
	item, err := w.Store.Get(ctx, kv.Key{Partition: integration.Partition, Name: "c/pub/pub_b"})
	coretest.Must(t, err)
	coretest.Must(t, w.Store.Commit(ctx, kv.Tx{ID: "forger", Partition: integration.Partition,
		Puts: []kv.Put{{Name: "c/pub/pub_a", Value: item.Value}}}))
	w.Directory = integration.NewDirectory(w.Host.Host)
	_, _, err = w.serve(&web.Request{Method: "POST", Path: web.StartPath, Header: bearer(w.sk),
		Body: []byte(startBody())}, (*API).Start)
	if !errors.Is(err, token.ErrRecord) {
		t.Errorf("contract 19: %v", err)
	}
}
