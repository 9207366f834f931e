package cli

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// TestCheckEmpty_AllFlags gives each flag of each command an empty value, in both forms. An empty value may
// only clear a setting.
func TestCheckEmpty_AllFlags(t *testing.T) {
	t.Parallel()
	p, _, _ := testProgram()
	parser, _, err := newParser(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	cleared := map[string]bool{}
	for _, leaf := range parser.Model.Leaves(false) {
		command := strings.Fields(leaf.FullPath())[1:]
		for _, flag := range leaf.Flags {
			if flag.IsBool() {
				continue
			}
			for _, words := range [][]string{{"--" + flag.Name + "="}, {"--" + flag.Name, ""}} {
				args := append(slices.Clone(command), words...)
				parsed, err := kong.Trace(parser, args)
				if err == nil {
					err = parsed.Error
				}
				if err == nil {
					err = checkEmpty(parsed, args)
				}
				if flag.Name == "after" {
					if err != nil {
						t.Errorf("contract 47: %q: %v", args, err)
					}
					continue
				}
				if err == nil {
					cleared[flag.Name] = true
					if flag.Target.Kind() != reflect.Pointer {
						t.Errorf("contract 47: %q counts as omitted", args)
					}
				}
			}
		}
	}
	for name := range cleared {
		if !slices.Contains(clears, name) {
			t.Errorf("contract 47: --%s '' is accepted", name)
		}
	}
	for _, name := range clears {
		if !cleared[name] {
			t.Errorf("contract 42: --%s '' is rejected, which clears the setting", name)
		}
	}
}

// TestCheckEmpty_Arguments gives commands empty arguments.
func TestCheckEmpty_Arguments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		says string // "": accepted
	}{
		{[]string{"publisher", "show", ""}, "<id> is empty: give a value; run `verge publisher show --help`"},
		{[]string{"module", "digest", ""}, "<module> is empty: give a value, or omit it"},
		{[]string{"init", ""}, "<dir> is empty"},
		{[]string{"member", "role", "mem_1", "viewer", "--admin-url="}, "--admin-url is empty"},
		{[]string{"publisher", "show", "--json", "--", ""}, "<id> is empty"},
		{[]string{"complete", "--", "member", "invite", "--role", ""}, ""},
		{[]string{"publisher", "show", "a="}, ""},
		{[]string{"publisher", "list", "--name=--name="}, ""},
	} {
		p, _, _ := testProgram()
		parser, _, err := newParser(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := parser.Parse(c.args)
		if err == nil {
			err = checkEmpty(parsed, c.args)
		}
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v, want %q", c.args, err, c.says)
		}
	}
}
