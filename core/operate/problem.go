package operate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrNotFound: there is no such thing, or it is another publisher's.
var ErrNotFound = errors.New("operate: not found")

// ErrStale: the thing has changed since the version that the caller names. Whoever changed it and what, the
// audit says.
var ErrStale = errors.New("operate: it has changed since that version")

// ErrManaged: the configuration file names the thing, so it is changed there (contract 46).
var ErrManaged = errors.New("operate: it is managed by the configuration file")

// ErrArchived: the thing is archived and takes no change.
var ErrArchived = errors.New("operate: it is archived")

// Forbidden: the actor sees the thing, and its role may not do that.
type Forbidden struct {
	Operation Operation
	Role      Role
}

func (f *Forbidden) Error() string {
	return fmt.Sprintf("the role %s may not do this (%s)", f.Role, f.Operation)
}

// Refused: what is asked for cannot be done as things stand. The text is for the caller, and says what to do.
type Refused struct{ Message string }

func (r *Refused) Error() string { return r.Message }

// ErrNeedsOrigins: the integration lists no callback origins, so it has no public key (contract 8).
var ErrNeedsOrigins = &Refused{"A public key needs the integration's callback origins: anybody " +
	"can read the key and would choose where the result token goes. List them in callback_origins, " +
	"then make the key."}

// Field is one value that is wrong.
type Field struct {
	Field   string // as the API and the forms call it
	Code    string // required, length, value or conflict, as in contract 5
	Message string // for a person
}

// Invalid has every value that is wrong.
type Invalid struct {
	Fields []Field

	// misread are how many of the fields somebody else has found first (Operations.WithMisread). Nothing is
	// known of their values, so nothing more is said of them.
	misread int
}

func (i *Invalid) Error() string {
	var all []string
	for _, f := range i.Fields {
		all = append(all, f.Field+": "+f.Message)
	}
	return strings.Join(all, "\n")
}

func (i *Invalid) add(field, code, format string, args ...any) {
	if slices.ContainsFunc(i.Fields[:i.misread], func(f Field) bool { return f.Field == field }) {
		return
	}
	i.Fields = append(i.Fields, Field{field, code, fmt.Sprintf(format, args...)})
}

// err returns i if anything is wrong.
func (i *Invalid) err() error {
	if len(i.Fields) == 0 {
		return nil
	}
	return i
}
