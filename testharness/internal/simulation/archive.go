package simulation

import (
	"fmt"
	"time"
)

// archived is the time in which a publisher or an integration is archived. Each pair has the first request
// and the response that acknowledged it, zero for an unknown outcome.
type archived struct{ archive, restore span }

// surely reports whether something is archived for all instances from one time to another.
func (a archived) surely(j *judge, from, to time.Time) bool {
	return !a.archive.acknowledged.IsZero() &&
		a.archive.acknowledged.Add(cacheLife+j.tolerance()).Before(from) &&
		(a.restore.asked.IsZero() || to.Before(a.restore.asked))
}

// perhaps reports whether something can be archived for some instance at some time between two.
func (a archived) perhaps(j *judge, from, to time.Time) bool {
	return !a.archive.asked.IsZero() && !a.archive.asked.After(to) &&
		(a.restore.acknowledged.IsZero() || !a.restore.acknowledged.Add(cacheLife+j.tolerance()).Before(from))
}

// archive is an operator who archives publishers and restores them, and who archives integrations.
func (w *world) archive() {
	act := w.current.act
	away := 150
	if w.rate[switchPasskeys] > 0 { // visitors come within ten minutes
		away = 500
	}
	for range 1 + act.pick(2) {
		w.sleep(time.Duration(10+act.pick(200)) * time.Second)
		w.met(switchArchive)
		s := w.shops[act.pick(2)]
		if act.chance(300) {
			w.archiveIntegration(s.integrations[act.pick(len(s.integrations))])
			continue
		}
		s.archived = append(s.archived, archived{})
		now := &s.archived[len(s.archived)-1]
		w.applySite(s, true, &now.archive)
		w.sleep(time.Duration(act.pick(away)) * time.Second)
		w.applySite(s, false, &now.restore)
	}
}

// archiveIntegration archives an integration. No one restores it.
func (w *world) archiveIntegration(i offer) {
	if w.archived[i.id] != nil {
		return
	}
	a := &archived{}
	w.archived[i.id] = a
	w.repeat(fmt.Sprintf("archives integration %s", i.id[32:]), &a.archive, func() answer {
		seen := w.ask(true, request("GET", "/admin/v1/integrations/"+i.id, operatorToken, nil))
		if seen.status != 200 || seen.text("archived") != "" {
			return seen
		}
		req := request("POST", "/admin/v1/integrations/"+i.id+"/archive", operatorToken, nil)
		req.Header["If-Match"] = []string{seen.header.Get("Etag")}
		return w.ask(true, req)
	})
}

// applySite archives or restores a publisher by a configuration, which names the other publishers, too.
func (w *world) applySite(s *shop, archive bool, when *span) {
	s.gone = archive
	var publishers []any
	for _, s := range w.shops {
		publishers = append(publishers, map[string]any{"id": s.publisher, "name": s.publisher,
			"archived": s.gone})
	}
	what := "restores " + s.publisher
	if archive {
		what = "archives " + s.publisher
	}
	w.repeat(what, when, func() answer {
		return w.ask(true, request("POST", "/admin/v1/site", operatorToken,
			map[string]any{"publishers": publishers}))
	})
}

// repeat repeats a request until it is acknowledged.
func (w *world) repeat(what string, when *span, send func() answer) {
	when.asked = w.now
	for range 200 {
		a := send()
		w.tell(w.current.name, "%s: %d", what, a.status)
		if a.status == 200 {
			when.acknowledged = w.now
			w.judge.reach(what[:8])
			return
		}
		if w.over || a.known() && a.status != 412 && !w.judge.forgot {
			w.judge.fail("contract 46: an operator %s and gets %d %s", what, a.status, a.body)
			return
		}
		w.sleep(time.Duration(5+w.current.act.pick(20)) * time.Second)
	}
}

// surelyArchived reports whether a publisher is archived for all instances from one time to another.
func (j *judge) surelyArchived(s *shop, from, to time.Time) bool {
	for _, a := range s.archived {
		if a.surely(j, from, to) {
			return true
		}
	}
	return false
}

func (j *judge) perhapsArchived(s *shop, from, to time.Time) bool {
	for _, a := range s.archived {
		if a.perhaps(j, from, to) {
			return true
		}
	}
	return false
}

// keyUsed is a response to a request with a publisher's key.
func (j *judge) keyUsed(s *shop, key string, asked time.Time, a answer) {
	switch {
	case !a.known() || j.forgot:
	case a.status != 401 && j.surelyArchived(s, asked, j.w.now):
		j.fail("contract 46: a key of the archived publisher %s gets %d", s.publisher, a.status)
	case a.status == 401 && key == s.key && !j.perhapsArchived(s, asked, j.w.now):
		j.fail("contract 12: a good key of %s is rejected: %s", s.publisher, a.body)
	case a.status == 401 && key == s.key:
		j.reach("key of archived publisher")
	}
}

// startUsed is a response to the start of an integration by a good key.
func (j *judge) startUsed(i offer, asked time.Time, a answer) {
	gone := archived{}
	if known := j.w.archived[i.id]; known != nil {
		gone = *known
	}
	switch {
	case j.forgot:
	case a.status == 200 && gone.surely(j, asked, j.w.now):
		j.fail("contract 46: the archived integration %s starts a session", i.id)
	case a.status == 404 && !gone.perhaps(j, asked, j.w.now):
		j.fail("contract 46: start does not find the integration %s: %s", i.id, a.body)
	case a.status == 404:
		j.reach("start of archived integration")
	}
}
