package workers_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/admin"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/testharness/wait"
	"github.com/verge-id/verge/testharness/workerd"
)

// page is a page of the rows of a partition.
type page struct {
	Items []struct {
		Name, Tx, Expires string
		Value             []byte
	}
	Tasks                        []struct{ ID, Due string }
	Removed_items, Removed_tasks []string
	Next                         string
}

func (s *service) rows(partition, after string) (p page) {
	s.t.Helper()
	a := s.do(
		"GET",
		s.base+admin.StorePath+"?partition="+partition+"&after="+after,
		bearer(operatorToken),
		nil,
	)
	if a.status != http.StatusOK || json.Unmarshal(a.body, &p) != nil {
		s.t.Fatalf("page: %d %s", a.status, a.body)
	}
	return p
}

func (s *service) action(partition, action string, more string) answer {
	s.t.Helper()
	return s.do("POST", s.base+admin.StorePath, bearer(operatorToken),
		fmt.Appendf(nil, `{"action":%q,"partition":%q%s}`, action, partition, more))
}

// An export has the rows of one moment, even if the partition changes between the pages. The two
// items of a pair always change in one commit.
func TestExport_IsConsistent(t *testing.T) {
	s, server := deploy(t, newInbox(t), nil)
	s.makeKey()
	store := server.KV()
	value := strings.Repeat("v", 2000)
	var n atomic.Int64
	pair := func(k int) {
		tx := kv.Tx{ID: fmt.Sprint("tx", n.Add(1)), Partition: "p1"}
		for _, half := range []string{"a", "z"} {
			tx.Puts = append(
				tx.Puts,
				kv.Put{Name: fmt.Sprintf("%s/%03d", half, k), Value: []byte(value + tx.ID)},
			)
		}
		tx.Schedule = []kv.Task{
			{ID: fmt.Sprintf("t/%03d", k), Due: time.Now().Add(time.Hour + time.Duration(n.Load()))},
		}
		if err := store.Commit(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
	}
	const pairs = 300
	for k := range pairs {
		pair(k)
	}
	items, tasks, pages := map[string]string{}, map[string]string{}, 0
	for after := ""; ; pages++ {
		p := s.rows("p1", after)
		for _, it := range p.Items {
			items[it.Name] = it.Tx + " " + string(it.Value[len(value):])
		}
		for _, task := range p.Tasks {
			tasks[task.ID] = task.Due
		}
		for _, name := range p.Removed_items {
			delete(items, name)
		}
		for _, id := range p.Removed_tasks {
			delete(tasks, id)
		}
		if after = p.Next; after == "" {
			break
		}
		if pages < 3 { // rows before and after the cursor
			for _, k := range []int{pages, pairs - 1 - pages, pairs + pages} {
				pair(k)
			}
			err := store.Commit(t.Context(), kv.Tx{ID: fmt.Sprint("del", pages), Partition: "p1",
				Deletes: []string{fmt.Sprintf("a/%03d", 100+pages), fmt.Sprintf("z/%03d", 100+pages)},
				Cancel:  []string{fmt.Sprintf("t/%03d", 100+pages)}})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if pages < 4 || len(items) != 2*pairs || len(tasks) != pairs {
		t.Fatalf("%d pages with %d items and %d tasks", pages, len(items), len(tasks))
	}
	for name, of := range items {
		other := strings.Replace(name, "a/", "z/", 1)
		if items[other] != of || strings.Fields(of)[0] != strings.Fields(of)[1] {
			t.Errorf("%s is of %q, %s of %q", name, of, other, items[other])
		}
		it, err := store.Get(t.Context(), kv.Key{Partition: "p1", Name: name})
		if err != nil || it.Tx != strings.Fields(of)[0] {
			t.Errorf("%s is of %q, and in the store of %q, %v", name, of, it.Tx, err)
		}
	}
	s.want(s.do("GET", s.base+admin.StorePath+"?partition=p1&after=other/items/", bearer(operatorToken), nil),
		http.StatusConflict, "BACKUP_REFUSED")
}

// An export ends 10 minutes after its last page, even if its partition has no task that runs in the meantime.
func TestExport_EndsWithoutPages(t *testing.T) {
	s, site := newSite(t, newInbox(t), workerd.Config{})
	s.base = s.admin
	after := s.rows("c", "").Next
	site.Advance(9 * time.Minute)
	after = s.rows("c", after).Next
	if after == "" {
		t.Fatal("the export ends with the tasks")
	}
	site.Advance(10*time.Minute + time.Second)
	s.want(s.do("GET", s.base+admin.StorePath+"?partition=c&after="+after, bearer(operatorToken), nil),
		http.StatusConflict, "BACKUP_REFUSED")
	if s.rows("c", "").Next == "" {
		t.Error("another export has one page")
	}
}

// A locked partition rejects everything until it is complete, even after a restart. Then its tasks run.
func TestImport_Lock(t *testing.T) {
	in := newInbox(t)
	s, server := deploy(t, in, nil)
	s.makeKey()
	all := core.StorePartitions(2)
	for _, of := range all {
		s.want(s.action(string(of), "lock", ""), http.StatusOK, "")
	}
	s.want(s.askForStart(integrationID), http.StatusServiceUnavailable, "UNAVAILABLE")
	s.want(s.action("p0", "clear", ""), http.StatusOK, "")
	server.Restart(t)
	s.want(s.askForStart(integrationID), http.StatusServiceUnavailable, "UNAVAILABLE")
	s.want(s.action("p0", "unlock", ""), http.StatusConflict, "BACKUP_REFUSED")
	s.want(s.do("GET", s.base+admin.StorePath+"?partition=p0&after=", bearer(operatorToken), nil),
		http.StatusConflict, "BACKUP_REFUSED")
	if a := s.action("p0", "lock", ""); !strings.Contains(string(a.body), `"interrupted":true`) {
		t.Errorf("lock: %d %s", a.status, a.body)
	}
	due := fmt.Sprint(time.Now().Add(-time.Second).UnixNano())
	s.want(s.action("p0", "load", `,"items":[{"name":"x","value":"aGk=","tx":"t1","expires":null}],`+
		`"tasks":[{"id":"due","due":"`+due+`","payload":""}]`), http.StatusOK, "")
	if a := s.action("p0", "count", ""); string(a.body) != `{"items":1,"tasks":1}` {
		t.Errorf("count: %d %s", a.status, a.body)
	}
	s.want(s.action("p0", "finish", ""), http.StatusOK, "")
	for _, of := range all {
		s.want(s.action(string(of), "unlock", ""), http.StatusOK, "")
	}
	it, err := server.KV().Get(t.Context(), kv.Key{Partition: "p0", Name: "x"})
	if err != nil || it.Tx != "t1" || string(it.Value) != "hi" {
		t.Errorf("%+v, %v", it, err)
	}
	s.start()
	// The alarm was set: the guest removes a task that it cannot read, and logs it.
	wait.Until(
		t,
		"the task that was loaded",
		func() bool { return strings.Contains(server.Log(), `"task":"due"`) },
	)
	for _, line := range []string{`"msg":"partition locked"`, `"msg":"partition imported"`} {
		if !strings.Contains(server.Log(), line) {
			t.Errorf("no line %s in the log", line)
		}
	}
}

func TestStoreRoute_Rejections(t *testing.T) {
	s, _ := deploy(t, newInbox(t), nil)
	s.makeKey()
	made := s.post("/admin/v1/operators", operatorToken, map[string]any{"name": "second", "role": "operator"})
	viewer := s.post("/admin/v1/operators", operatorToken, map[string]any{"name": "third", "role": "viewer"})
	operator, sees := made.text("token"), viewer.text("token")
	get := func(query string) string { return s.base + admin.StorePath + query }
	for _, c := range []struct {
		name, method, query, token, body string
		status                           int
		code                             string
	}{
		{"contract 42: a wrong token", "GET", "", "guess", "", 401, "UNAUTHORIZED"},
		{"contract 42: a secret key", "GET", "", s.key, "", 401, "UNAUTHORIZED"},
		{"contract 42: a viewer", "GET", "?partition=c", sees, "", 403, "FORBIDDEN"},
		{"contract 42: an operator exports", "GET", "?partition=c", operator, "", 200, ""},
		{"contract 60: an operator of the store imports", "POST", "", operator,
			`{"action":"lock","partition":"c"}`, 403, "FORBIDDEN"},
		{"no partition's name", "GET", "?partition=../c", operatorToken, "", 400, "INVALID_REQUEST"},
		{"another method", "PUT", "", operatorToken, "", 405, "METHOD_NOT_ALLOWED"},
		{"no JSON", "POST", "", operatorToken, "{", 400, "INVALID_REQUEST"},
		{"an unknown action", "POST", "", operatorToken, `{"action":"toString","partition":"c"}`, 400,
			"INVALID_REQUEST"},
		{"no lock", "POST", "", operatorToken, `{"action":"clear","partition":"c"}`, 409, "BACKUP_REFUSED"},
		{"a body of more than 1 MiB", "POST", "", operatorToken, strings.Repeat(" ", 1<<20+1), 413,
			"PAYLOAD_TOO_LARGE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.t = t
			s.want(s.do(c.method, get(c.query), bearer(c.token), []byte(c.body)), c.status, c.code)
		})
	}
	s.t = t
	lock := `{"action":"lock","partition":"p0"}`
	for _, c := range []struct {
		name, method, header, body string
		status                     int
		allow, encoding            string // of the response
	}{
		{"contract 5: another method", "PUT", "", "", 405, "GET, HEAD, POST", ""},
		{"contract 3: a text", "POST", "Content-Type: text/plain", lock, 415, "", ""},
		{"contract 3: compressed", "POST", "Content-Encoding: gzip", lock, 415, "", "identity"},
		{"contract 3: a member twice", "POST", "", `{"\u0061ction":"count","action":"lock","partition":"p0"}`, 400,
			"", ""},
		{"contract 3: a member of a member twice", "POST", "",
			`{"action":"lock","partition":"p0","items":[{"a":"}","a":1}]}`, 400, "", ""},
		{"contract 3: a byte order mark", "POST", "", "\ufeff" + lock, 400, "", ""},
		{"contract 3: no UTF-8", "POST", "", `{"action":"lock","partition":"p0","x":"` + "\xff" + `"}`, 400, "", ""},
	} {
		h := bearer(operatorToken)
		if name, value, ok := strings.Cut(c.header, ": "); ok {
			h.Set(name, value)
		}
		a := s.do(c.method, get(""), h, []byte(c.body))
		if a.status != c.status || a.header.Get("Allow") != c.allow ||
			a.header.Get("Accept-Encoding") != c.encoding {
			t.Errorf("%s: %d %v %s", c.name, a.status, a.header, a.body)
		}
	}
	// RFC 9110, 11.1: the case of the scheme does not matter.
	s.want(s.do("POST", get(""), http.Header{"Authorization": {"bearer  " + operatorToken}},
		[]byte(`{"action":"lock","partition":"p0"}`)), http.StatusOK, "")
	for name, rows := range map[string]string{
		"no base64":        `"items":[{"name":"x","value":"!","tx":"t"}]`,
		"no name":          `"items":[{"name":"a b","value":"","tx":"t"}]`,
		"no time":          `"tasks":[{"id":"x","due":"soon","payload":""}]`,
		"a distant time":   `"items":[{"name":"x","value":"","tx":"t","expires":"9999999999999999999"}]`,
		"no list":          `"items":7`,
		"a value too long": `"items":[{"name":"x","value":"` + strings.Repeat("aaaa", 22000) + `","tx":"t"}]`,
	} {
		if a := s.action("p0", "load", ","+rows); a.status != 409 && a.status != 503 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if a := s.action("p0", "count", ""); string(a.body) != `{"items":0,"tasks":0}` {
		t.Errorf("a rejected load has changed the store: %s", a.body)
	}
	if a := s.do("GET", s.base+web.HostedPath, nil, nil); a.status == http.StatusOK {
		t.Errorf("a page without a link: %d", a.status)
	}
}

// Contract 60: each object is in the jurisdiction, and is created in the region.
func TestNamespace_Places(t *testing.T) {
	places := func(jurisdiction, hint string) map[string]string {
		return map[string]string{"JURISDICTION": jurisdiction, "LOCATION_HINT": hint}
	}
	for _, c := range []struct {
		variables map[string]string
		want      string
	}{
		{map[string]string{}, `[[anywhere/p0 ] [anywhere/c ]]`},
		{places("", "weur"), `[[anywhere/p0 weur] [anywhere/c weur]]`},
		{places("eu", ""), `[[eu/p0 ] [eu/c ]]`},
		{places("us", "enam"), `[[us/p0 enam] [us/c enam]]`},
		{places("ch", ""), `[[JURISDICTION is none of eu, us, fedramp, fedramp-high]]`},
		{places("", "toString"), `[[LOCATION_HINT is none of wnam, enam, sam, weur, eeur, apac, apac-ne, ` +
			`apac-se, oc, afr, me]]`},
	} {
		var got [][]string
		askWorker(t, "namespace", c.variables, &got)
		if fmt.Sprint(got) != c.want {
			t.Errorf("%v: %v, want %s", c.variables, got, c.want)
		}
	}
}

// workerd passes the hint to the platform's interface. It does not support jurisdictions: with one, the
// Worker serves no request, and does not use other objects instead.
func TestPlaces_OnTheDeployedEntry(t *testing.T) {
	s, _ := deploy(t, newInbox(t), func(w *workerd.Worker) { w.Secrets["LOCATION_HINT"] = "weur" })
	s.makeKey()
	s.start()
	for name, value := range map[string]string{"JURISDICTION": "eu", "LOCATION_HINT": "Zurich"} {
		s, server := deploy(t, newInbox(t), func(w *workerd.Worker) { w.Secrets[name] = value })
		s.want(s.post(web.StartPath, "", map[string]any{}), http.StatusServiceUnavailable, "UNAVAILABLE")
		if log := server.Log(); !strings.Contains(log, "urisdiction") &&
			!strings.Contains(log, "LOCATION_HINT is none of") {
			t.Errorf("the log:\n%s", log)
		}
	}
}
