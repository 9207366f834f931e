package problem

import (
	"errors"
	"fmt"
	"testing"
)

func TestList(t *testing.T) {
	var l List
	if l.Err() != nil {
		t.Errorf("nothing is wrong, and it says %v", l.Err())
	}
	l.AddError("A", nil)
	l.Add("A", "%d is too many", 3)
	l.AddError("B", errors.New("it is gone"))
	l.AddWithin("part: ", List{{"C", "it is late"}})
	if got, want := l.Error(), "A: 3 is too many\nB: it is gone\npart: C: it is late"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}

	renamed := l.Rename(map[string]string{"A": "a_key"})
	if got, want := renamed.Error(), "a_key: 3 is too many\nB: it is gone\npart: C: it is late"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if l[0].Member != "A" {
		t.Error("renaming changed the list itself")
	}

	var found List
	if err := fmt.Errorf("configuration: %w", l.Err()); !errors.As(err, &found) || len(found) != 3 {
		t.Errorf("the list is not found in %v", err)
	}
}

func TestHasKnowsWhatHoldsAMember(t *testing.T) {
	l := List{{Member: "integrations.1"}, {Member: "name"}}
	for member, want := range map[string]bool{
		"name": true, "integrations.1": true, "integrations.1.name": true,
		"integrations.10": false, "integrations": false, "names": false,
	} {
		if got := l.Has(member); got != want {
			t.Errorf("%s: %v, want %v", member, got, want)
		}
	}
}
