package operate

import (
	"fmt"
	"slices"

	"github.com/verge-id/verge/core/web"
)

// Operations return these errors, [web.ErrNotFound] and others of type [web.Error]. Compare them with
// errors.Is: with one of these, or with a code such as web.PreconditionFailed for a stale version.
var (
	// ErrManaged rejects a change of something that the configuration file manages (contract 46).
	ErrManaged = &web.Error{Code: web.Forbidden,
		Message: "This is managed by the service's configuration. Change it there."}

	ErrArchived = &web.Error{Code: web.InvalidRequest, Message: "It is archived and cannot be changed."}

	// ErrNeedsOrigins rejects a public key for an integration without callback origins (contract 8).
	ErrNeedsOrigins = &web.Error{Code: web.Forbidden,
		Message: "A public key needs the integration's callback origins: anybody " +
			"can read the key and would choose where the result token goes. List them in callback_origins, " +
			"then make the key."}
)

// missingRight is the cause of an error about an actor that sees the thing, but whose role lacks the right.
type missingRight struct {
	Operation Operation
	Role      Role
}

func (f *missingRight) Error() string {
	return fmt.Sprintf("the role %s may not do this (%s)", f.Role, f.Operation)
}

// Forbids returns the error for an actor whose role lacks a right.
func (a Actor) Forbids(r Right) error {
	return &web.Error{Code: web.Forbidden, Cause: &missingRight{r.operation(), a.Role},
		Message: "The role of this operator token, " + string(a.Role) + ", may not do this."}
}

// errStale returns the error for a change of a version that is no longer current. present is the current
// version, or "" if it is not known.
func errStale(present string) error {
	e := &web.Error{Code: web.PreconditionFailed,
		Message: "It was changed in the meantime, so your change was not saved. Read it again, and " +
			"repeat your change. The audit lists all changes."}
	if present != "" {
		e.Details = []web.FieldError{{Field: "If-Match", Code: "value",
			Message: `The current version is "` + present + `".`}}
	}
	return e
}

// errConflict returns the error for a request that the state of things does not allow.
func errConflict(message string) error {
	return &web.Error{Code: web.InvalidRequest, Message: message}
}

// errInvalid returns the error for a request with invalid values.
func errInvalid(fields ...web.FieldError) error {
	return &web.Error{Code: web.InvalidRequest, Message: "The request is not valid.", Details: fields}
}

// invalid collects the invalid values of a request.
type invalid struct {
	fields []web.FieldError

	// unread is the number of fields, the first ones, whose values could not be read. They get no further
	// errors.
	unread int
}

func (i *invalid) add(field, code, format string, args ...any) {
	if slices.ContainsFunc(i.fields[:i.unread], func(f web.FieldError) bool { return f.Field == field }) {
		return
	}
	i.fields = append(i.fields,
		web.FieldError{Field: field, Code: code, Message: fmt.Sprintf(format, args...)})
}

// err returns an error with all invalid values, or nil.
func (i *invalid) err() error {
	if len(i.fields) == 0 {
		return nil
	}
	return errInvalid(i.fields...)
}
