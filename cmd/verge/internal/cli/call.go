package cli

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/verge-id/verge/cmd/verge/internal/adminclient"
	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/core/operate"
)

// asking has the last flags of a command that calls a server.
type asking struct {
	JSON bool `help:"Print JSON."`
	serverFlags
}

// changing has the last flags of a command that changes a versioned object. IfVersion guards the change
// against a lost update.
type changing struct {
	JSON      bool   `help:"Print JSON."`
	IfVersion string `placeholder:"VERSION" help:"Change it only if it still has this version, as \"show\" prints it. Default: any version."`
	serverFlags
}

func (a asking) asJSON() bool   { return a.JSON }
func (c changing) asJSON() bool { return c.JSON }

// flags are the flags and arguments of a command, with asking or changing among them.
type flags interface {
	client(p *program) (*adminclient.Client, error)
	asJSON() bool
}

// call makes the call of a command and prints the response. The input has the values of the flags, see fill.
func call[In, Out any](ctx context.Context, p *program, c flags, e *operate.Endpoint[In, Out],
	print func(*Out) error) error {
	return callWith(ctx, p, c, e, filled[In](p, c), print)
}

// callWith is call with an input.
func callWith[In, Out any](ctx context.Context, p *program, c flags, e *operate.Endpoint[In, Out], in In,
	print func(*Out) error) error {
	client, err := c.client(p)
	if err != nil {
		return err
	}
	out, err := adminclient.Do(ctx, client, e, in)
	if err != nil {
		return err
	}
	if c.asJSON() {
		return printJSON(p, out)
	}
	return print(out)
}

// list calls all pages of a list.
func list[In, T any](ctx context.Context, p *program, c flags, e *operate.Endpoint[In, operate.Page[T]],
	print func([]T) error) error {
	client, err := c.client(p)
	if err != nil {
		return err
	}
	all, err := adminclient.All(ctx, client, e, filled[In](p, c))
	if err != nil {
		return err
	}
	if c.asJSON() {
		return printJSON(p, all)
	}
	return print(all)
}

// page calls one page of a list. none is printed if it is empty.
func page[In, T any](ctx context.Context, p *program, c flags, e *operate.Endpoint[In, operate.Page[T]],
	in In, none string, print func([]T) error) error {
	client, err := c.client(p)
	if err != nil {
		return err
	}
	items, next, err := adminclient.Page(ctx, client, e, in)
	switch {
	case err != nil:
		return err
	case c.asJSON():
		return printJSON(p, map[string]any{e.List: items, "next": next})
	case len(items) == 0:
		fmt.Fprintln(p.stdout, none)
	default:
		err = print(items)
	}
	if next != "" && err == nil {
		fmt.Fprintf(p.stdout, "\nThere are more: add --after %s\n", next)
	}
	return err
}

// filled returns an input with the values of the flags of the same names in c, which points to a command. The
// placeholder of the path is the argument ID, if the command has it.
func filled[In any](p *program, c any) In {
	var in In
	to, from := reflect.ValueOf(&in).Elem(), reflect.ValueOf(c).Elem()
	if to.Kind() == reflect.String {
		to.SetString(from.FieldByName("ID").String())
		return in
	}
	_, changes := to.Type().FieldByName("Version")
	fillAll(p, to, from, changes)
	return in
}

// fillAll fills an input, or a part of one. changes means that it is the input of a change.
func fillAll(p *program, to, from reflect.Value, changes bool) {
	for n := range to.NumField() {
		f := to.Type().Field(n)
		name := f.Name
		switch {
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			fillAll(p, to.Field(n), from, changes)
			continue
		case changes && f.Tag.Get("only") == "create":
			continue
		case f.Tag.Get("in") == "path" && from.FieldByName("ID").IsValid():
			name = "ID"
		case f.Tag.Get("in") == "match":
			name = "IfVersion"
		}
		if flag := from.FieldByName(name); flag.IsValid() {
			fill(p, to.Field(n), flag)
		}
	}
}

// fill sets a field of an input to the value of a flag.
func fill(p *program, field, flag reflect.Value) {
	switch value := flag.Interface().(type) {
	case config.Duration: // from now
		if value != 0 {
			field.Set(reflect.ValueOf(new(p.Now().Add(time.Duration(value)).UTC().Truncate(time.Second))))
		}
	case string:
		if field.Kind() == reflect.Pointer {
			field.Set(reflect.ValueOf(&value))
			return
		}
		field.SetString(value)
	default:
		field.Set(flag)
	}
}
