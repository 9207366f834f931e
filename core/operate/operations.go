package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/api"
	"github.com/verge-id/verge/core/internal/audit"
	"github.com/verge-id/verge/core/internal/lifecycle"
	"github.com/verge-id/verge/core/internal/liststore"
	"github.com/verge-id/verge/core/internal/member"
	"github.com/verge-id/verge/core/internal/outbox"
	"github.com/verge-id/verge/core/internal/passkey"
	"github.com/verge-id/verge/core/internal/report"
	"github.com/verge-id/verge/core/internal/usage"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/problem"
	"github.com/verge-id/verge/core/web"
)

// Operations carries out the operations of operators and members. All fields are needed.
type Operations struct {
	host.Host

	Dev     bool // allows the values that integration.Integration.Validate allows in dev
	BaseURL string

	ServiceName string // no publisher may have it
	Catalog     method.Catalog
	Partitions  []kv.Partition

	Directory *integration.Directory
	People    *member.Registry
	Outbox    *outbox.Outbox
	Lifecycle *lifecycle.Lifecycle
	Counted   *usage.Usage

	UserPasskeys *passkey.Store
	Lists        *liststore.Store

	Reports report.Config

	HostFetchesLists bool // LoadTrustList is for the host alone

	// StartTest starts a session of an integration without a key (api.API.StartTestSession).
	StartTest func(ctx context.Context, i *integration.Integration, callback string) (api.Started, error)

	misread []web.FieldError // see WithMisread
}

// WithMisread returns Operations for a request with values that could not be read. The input lacks them, and
// misread has an error for each. Every operation with values then returns an error with these and the other
// invalid values, without a change (contract 5). Without such values it returns o itself.
func (o *Operations) WithMisread(misread []web.FieldError) *Operations {
	if len(misread) == 0 {
		return o
	}
	with := *o
	with.misread = misread
	return &with
}

// wrong returns the errors that are known before an operation checks its values.
func (o *Operations) wrong() invalid {
	return invalid{fields: slices.Clone(o.misread), unread: len(o.misread)}
}

func (o *Operations) isMisread(field string) bool {
	return slices.ContainsFunc(o.misread, func(f web.FieldError) bool { return f.Field == field })
}

// readable rejects a request with values that could not be read. Operations with at most one value to check
// call it.
func (o *Operations) readable() error {
	wrong := o.wrong()
	return wrong.err()
}

// change is one field before and after, for the audit.
type change = audit.Change

// auditEntry returns the audit entry of an operation, to be written in the commit that carries it out.
func (o *Operations) auditEntry(who Actor, op Operation, publisher, target string, changes ...change) (
	[]kv.Put, error) {
	if err := o.readable(); err != nil { // even if the operation does not look itself
		return nil, err
	}
	if op.Words() == "" {
		return nil, fmt.Errorf("operate: %s has no words for the audit; see allow", op)
	}
	return audit.Entry{Actor: audit.Actor{Kind: who.Kind, ID: who.ID, Name: who.Name},
		Publisher: publisher, Operation: string(op), Target: target,
		Changes: changes}.Puts(o.Sealer, o.Random, o.Now())
}

// apiError returns the error for the caller of an operation if err is one of packages integration and member,
// and else err.
func (o *Operations) apiError(err error) error {
	var list problem.List
	switch {
	case errors.Is(err, integration.ErrNotFound):
		return web.ErrNotFound
	case errors.Is(err, integration.ErrStale):
		return errStale("")
	case errors.Is(err, integration.ErrManaged):
		return ErrManaged
	case errors.Is(err, integration.ErrArchived):
		return ErrArchived
	case errors.Is(err, integration.ErrCursor):
		return badCursor
	case errors.As(err, &list):
		return o.invalid(list)
	}
	return err
}

// limit returns how many items a part of a list has.
func (c Cursor) limit() int {
	if c.Limit <= 0 {
		return defaultLimit
	}
	return min(c.Limit, MaxLimit)
}

// mostSearched is the maximum number of items that a search checks for one response. The response has
// the matches so far, and Next continues.
const mostSearched = 2000

// named returns a filter for items with c.Name in their text, or nil if c selects all.
func named[T any](c Search, text func(T) string) (keep func(T) bool) {
	if c.Name == "" {
		return nil
	}
	part := strings.ToLower(strings.TrimSpace(c.Name))
	return func(item T) bool { return strings.Contains(strings.ToLower(text(item)), part) }
}

// find reads a part of a list with the items that keep accepts; nil: all. list reads it from behind a cursor.
// The cursors of the list are the ids of its items.
func find[T any](
	c Cursor, keep func(T) bool, list func(after string, n int) ([]T, string, error), id func(T) string,
) (found []T, next string, err error) {
	if keep == nil {
		return list(c.After, c.limit())
	}
	next = c.After
	for looked := MaxLimit; ; looked += MaxLimit {
		part, after, err := list(next, MaxLimit)
		if err != nil {
			return nil, "", err
		}
		for _, item := range part {
			if !keep(item) {
				continue
			}
			if len(found) == c.limit() {
				return found, id(found[len(found)-1]), nil
			}
			found = append(found, item)
		}
		if next = after; next == "" || looked >= mostSearched {
			return found, next, nil
		}
	}
}

// maxRaces limits how often one change is made again after others came first.
const maxRaces = 8

// overtaking repeats a change after a concurrent change, for a caller who accepts any version.
func overtaking[T any](version string, change func() (T, error)) (now T, err error) {
	for range maxRaces {
		if now, err = change(); version != "" || !errors.Is(err, web.PreconditionFailed) {
			break
		}
	}
	return now, err
}

// fresh rejects a version that is not the current one. "" accepts any.
func fresh(want, is string) error {
	if want != "" && want != is {
		return errStale(is)
	}
	return nil
}
