package simulation

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// listedIssuer is trusted only while a trusted list has it.
const listedIssuer = "violet"

// trustListSettings are the settings of the trusted list. It counts until its next update.
func trustListSettings() []any {
	return []any{map[string]any{"name": "eu", "url": "https://lists.example/list", "format": "etsi-ts-119602",
		"signers": []string{issuers()["lists"].anchor}, "grace": "0s"}}
}

// trustList is a trusted list that an operator has sent to the service.
type trustList struct {
	sequence     int
	has          bool // the listed issuer
	nextUpdate   time.Time
	asked        time.Time
	acknowledged time.Time // zero: its outcome is unknown, or it was rejected
	rejected     bool
	profile      string // of the instance that has stored it: the other profile has its own lists
}

// loadLists is an operator who loads trusted lists: new ones, old ones again, and outdated ones.
func (w *world) loadLists() {
	act := w.current.act
	if act.chance(700) {
		w.sleep(3 * time.Second) // instances take a moment to start
		w.load(&trustList{sequence: 1, has: true, nextUpdate: w.now.Add(time.Hour)})
	}
	for range 2 + act.pick(4) {
		w.sleep(time.Duration(2+act.pick(240)) * time.Second)
		l := &trustList{sequence: len(w.lists) + 1, has: act.pick(3) < 2, nextUpdate: w.now.Add(time.Hour)}
		switch act.pick(5) {
		case 3: // it ends soon, or has ended
			l.nextUpdate = w.now.Add(time.Duration(act.pick(400)-200) * time.Second)
		case 4: // an old one again
			if len(w.lists) > 0 {
				old := w.lists[act.pick(len(w.lists))]
				l.sequence, l.has, l.nextUpdate = old.sequence, old.has, old.nextUpdate
			}
		}
		w.load(l)
	}
}

// unlist is an operator who loads a list without the listed issuer, or one that ends soon, and waits until no
// instance uses the listed issuer.
func (w *world) unlist() {
	act := w.current.act
	l := &trustList{sequence: len(w.lists) + 1, nextUpdate: w.now.Add(time.Hour)}
	if act.chance(500) {
		l.has, l.nextUpdate = true, w.now.Add(listLife)
	}
	w.load(l)
	w.sleep(listLife + time.Duration(1+act.pick(60))*time.Second)
}

// listConfiguration returns the service's name for the configuration of the list, or "" at the end.
func (w *world) listConfiguration() string {
	for !w.over && !w.healed {
		var all struct {
			Lists []struct{ Configuration string } `json:"trust_lists"`
		}
		a := w.ask(true, request("GET", "/admin/v1/trust-lists", operatorToken, nil))
		if json.Unmarshal(a.body, &all) == nil && len(all.Lists) > 0 {
			return all.Lists[0].Configuration
		}
		w.sleep(time.Second)
	}
	return ""
}

func (w *world) load(l *trustList) {
	configuration := w.listConfiguration()
	in := w.anyInstance()
	l.asked, l.profile = w.now, in.trust.profile
	w.lists = append(w.lists, l)
	listed := issuers()["lists"]
	if l.has {
		listed = issuers()[listedIssuer]
	}
	sum := sha256.Sum256(fmt.Append(nil, l.sequence, l.has, l.nextUpdate))
	hash := hex.EncodeToString(sum[:])
	a := w.askOf(in, true, request("POST", "/admin/v1/trust-lists", operatorToken, map[string]any{
		"method": proofMethod, "name": "eu", "configuration": configuration, "sequence": l.sequence,
		"issued": epoch.Add(-time.Hour), "next_update": l.nextUpdate, "issuer": "lists", "signer": "lists",
		"signer_fingerprint": hash, "document": hash,
		"certificates": []string{base64.StdEncoding.EncodeToString(listed.Root.Raw)}}))
	w.tell(w.current.name, "loads the trusted list %d, with %s: %v, until %s: %d", l.sequence, listedIssuer,
		l.has, l.nextUpdate.Format(time.TimeOnly), a.status)
	w.judge.listLoaded(l, a)
}

// listLoaded is the response to a list.
func (j *judge) listLoaded(l *trustList, a answer) {
	j.plain("loading a trusted list", a)
	l.rejected = a.known() && a.status != 200
	if a.status != 200 {
		return
	}
	j.reach("trusted list loaded")
	for _, other := range j.w.lists {
		newer := other.sequence > l.sequence && other.profile == l.profile && !other.acknowledged.IsZero()
		if newer && other.acknowledged.Before(l.asked) && !j.forgot {
			j.fail("contract 53: the trusted list %d replaces the list %d", l.sequence, other.sequence)
		}
	}
	if l.nextUpdate.Add(j.tolerance()).Before(l.asked) {
		j.fail("contract 53: the trusted list %d is stored after its end", l.sequence)
	}
	l.acknowledged = j.w.now
}

// listLife is how long an instance uses a list without asking the store (contract 53).
const listLife = time.Minute

// listed reports whether some trusted list can have had the listed issuer during a request.
func (j *judge) listed(by served) bool {
	from, to := by.asked, by.until
	for _, l := range j.w.lists {
		if l.has && !l.rejected && l.profile == by.trust.profile && !l.asked.After(to) &&
			!l.nextUpdate.Add(j.tolerance()).Before(from) && !j.replaced(l, from) {
			return true
		}
	}
	return false
}

// replaced reports whether another list has replaced a list long enough before a time.
func (j *judge) replaced(l *trustList, at time.Time) bool {
	for _, next := range j.w.lists {
		if next.sequence > l.sequence && next.profile == l.profile && !next.acknowledged.IsZero() &&
			next.acknowledged.Add(listLife+j.tolerance()).Before(at) {
			return true
		}
	}
	return false
}
