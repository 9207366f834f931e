package member

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

func (w *fixture) admins(t testing.TB, publisher string) (n int) {
	t.Helper()
	all, _, err := w.Members(ctx, publisher, "", 1000)
	coretest.Must(t, err)
	for _, m := range all {
		if m.Role == RoleAdmin {
			n++
		}
	}
	return n
}

func TestRemove_LastAdmin(t *testing.T) {
	w := newFixture(t)
	ada, dev := w.enrol(t, "pub_a", RoleAdmin), w.enrol(t, "pub_a", RoleDeveloper)
	w.enrol(t, "pub_b", RoleAdmin)
	link := Actor{Kind: KindLink, ID: "link_1", Role: RoleAdmin, Publisher: "pub_a"}
	for _, by := range []Actor{ada.Actor, dev.Actor, link} {
		if err := w.Remove(ctx, by, ada.ID, nil); err != ErrLastAdmin {
			t.Errorf("contract 43: a %s removes the last admin: %v", by.Kind, err)
		}
		if _, err := w.ChangeRole(ctx, by, ada.ID, RoleViewer, nil); err != ErrLastAdmin {
			t.Errorf("contract 43: a %s demotes the last admin: %v", by.Kind, err)
		}
	}
	if m, err := w.ChangeRole(ctx, ada.Actor, ada.ID, RoleAdmin, nil); err != nil || m.Role != RoleAdmin {
		t.Errorf("contract 43: the last admin keeps the role: %v", err)
	}
	_, err := w.ChangeRole(ctx, ada.Actor, dev.ID, RoleAdmin, nil)
	coretest.Must(t, err)
	if m, err := w.ChangeRole(ctx, dev.Actor, ada.ID, RoleViewer, nil); err != nil || m.Role != RoleViewer {
		t.Errorf("contract 43: one of two admins: %+v, %v", m, err)
	}
	coretest.Must(t, w.Remove(ctx, root, dev.ID, nil))
	if n := w.admins(t, "pub_a"); n != 0 {
		t.Fatalf("%d admins", n)
	}

	// An operator's invitation gives a publisher without an admin a new one.
	secret, _ := w.invite(t, root, "pub_a", RoleAdmin)
	_, err = w.enrolBy(t, secret)
	coretest.Must(t, err)
	if n := w.admins(t, "pub_a"); n != 1 {
		t.Errorf("contract 43: %d admins after an operator's invitation", n)
	}
}

// The other admin may be on any page of the list.
func TestRemove_OtherAdminAmongMany(t *testing.T) {
	w := newFixture(t)
	ada := w.enrol(t, "pub_a", RoleAdmin)
	var last string // of the list
	for range memberPage + 10 {
		last = max(last, w.enrol(t, "pub_a", RoleViewer).ID)
	}
	if err := w.Remove(ctx, ada.Actor, ada.ID, nil); err != ErrLastAdmin {
		t.Errorf("contract 43: one admin among many: %v", err)
	}
	_, err := w.ChangeRole(ctx, ada.Actor, last, RoleAdmin, nil)
	coretest.Must(t, err)
	coretest.Must(t, w.Remove(ctx, ada.Actor, ada.ID, nil))
}

// Two admins demote or remove each other concurrently, in each combination: one admin is left.
func TestRemove_TwoAdminsConcurrently(t *testing.T) {
	demote := func(w *fixture, by, whom person) error {
		_, err := w.ChangeRole(ctx, by.Actor, whom.ID, RoleViewer, nil)
		return err
	}
	remove := func(w *fixture, by, whom person) error { return w.Remove(ctx, by.Actor, whom.ID, nil) }
	ways := []func(*fixture, person, person) error{demote, remove}
	for _, first := range ways {
		for _, second := range ways {
			w := newFixture(t)
			ada, bob := w.enrol(t, "pub_a", RoleAdmin), w.enrol(t, "pub_a", RoleAdmin)
			w.between(func() { coretest.Must(t, first(w, bob, ada)) })
			if err := second(w, ada, bob); err != ErrLastAdmin {
				t.Errorf("contract 43: the slower of two admins: %v", err)
			}
			if n := w.admins(t, "pub_a"); n != 1 {
				t.Errorf("contract 43: %d admins are left, want one", n)
			}
		}
	}
}

func TestMembers_OtherPublisher(t *testing.T) {
	w := newFixture(t)
	ada, bob := w.enrol(t, "pub_a", RoleAdmin), w.enrol(t, "pub_b", RoleDeveloper)
	for _, id := range []string{bob.ID, "", "mem_", "mem_" + strings.Repeat("0", 32), strings.ToUpper(ada.ID),
		ada.ID + "0", "../int/x", "mem_ " + ada.ID[5:]} {
		_, roleErr := w.ChangeRole(ctx, ada.Actor, id, RoleViewer, nil)
		_, outErr := w.SignOutEverywhere(ctx, ada.Actor, id, nil)
		_, readErr := w.Member(ctx, "pub_a", id)
		for _, err := range []error{w.Remove(ctx, ada.Actor, id, nil), roleErr, outErr, readErr} {
			if err != web.ErrNotFound {
				t.Errorf("contract 43: an admin and the member %q of another publisher: %v", id, err)
			}
		}
	}
	w.opens(t, "contract 43: another publisher's member", bob.cookie)
	if m, err := w.Member(ctx, "pub_b", bob.ID); err != nil || m.Role != RoleDeveloper || m.Epoch != 0 {
		t.Errorf("contract 43: %+v, %v", m, err)
	}

	// An index item that names another publisher's member does not reveal that member.
	w.plant(t, ofMember("pub_a", bob.ID), mark)
	w.plant(t, ofMember("pub_a", "mem_"+strings.Repeat("0", 32)), mark)
	if all, _, err := w.Members(ctx, "pub_a", "", 10); err != nil || len(all) != 1 || all[0].ID != ada.ID {
		t.Errorf("contract 19: members: %+v, %v", all, err)
	}
}

func TestMembers(t *testing.T) {
	w := newFixture(t)
	var want []string
	for range 5 {
		want = append(want, w.enrol(t, "pub_a", RoleViewer).ID)
		w.enrol(t, "pub_b", RoleViewer)
	}
	slices.Sort(want)
	pages := func(publisher string, n int) (ids []string) {
		for after := ""; ; {
			some, next, err := w.Members(ctx, publisher, after, n)
			coretest.Must(t, err)
			for _, m := range some {
				ids = append(ids, m.ID)
			}
			if next == "" {
				return ids
			}
			after = next
		}
	}
	for _, n := range []int{1, 2, 5, 6} {
		if got := pages("pub_a", n); !slices.Equal(got, want) {
			t.Errorf("contract 42: in pages of %d: %v, want %v", n, got, want)
		}
	}
	if got := pages("", 3); len(got) != 10 || !slices.IsSorted(got) {
		t.Errorf("contract 42: all members are %v", got)
	}
	if _, _, err := w.Members(ctx, "pub_a", "mem_x y", 2); !wrongMember(err, "after") {
		t.Errorf("an invented cursor: %v", err)
	}
	// A page reads only its own items.
	calls := w.Store.Calls()
	_, _, err := w.Members(ctx, "pub_a", "", 2)
	coretest.Must(t, err)
	if n := w.Store.Calls() - calls; n != 3 {
		t.Errorf("a page of 2 members makes %d store calls, want 3", n)
	}
}

func TestChangeRole_Overtaken(t *testing.T) {
	w := newFixture(t)
	p := w.enrol(t, "pub_a", RoleAdmin)
	other := w.another(t)
	inside := false
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Commit" && !inside {
			inside = true
			_, err := other.SignOutEverywhere(ctx, root, p.ID, nil)
			coretest.Must(t, err)
			inside = false
		}
		return kvtest.Pass
	}
	_, err := w.ChangeRole(ctx, root, p.ID, RoleViewer, nil)
	w.Store.Decide = nil
	m, readErr := w.Member(ctx, "", p.ID)
	if fmt.Sprint(err) == "" || err == nil || readErr != nil || m.Role != RoleAdmin || m.Epoch != maxRaces {
		t.Errorf("%v; the member is %+v, %v", err, m, readErr)
	}
}
