package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/verge-id/verge/core/kv"
)

// unsentError is the error of a call without a connection, for which no bytes were sent.
type unsentError struct{ err error }

func (e *unsentError) Error() string { return e.err.Error() }
func (e *unsentError) Unwrap() error { return e.err }

// help is advice for operators, by the code of a server's error.
var help = map[string]string{
	"28P01": "; user or password is wrong",
	"28000": "; the server's pg_hba.conf does not let this user in from here",
	"3D000": "; create the database",
	"42501": "; the user must own the schema or may SELECT, INSERT, UPDATE and DELETE on all its tables",
	"53300": "; the server has no connection left: lower pool_max_conns or raise max_connections",
	"53100": "; the server's disk is full",
	"25006": "; the server is read-only: add the primary",
	"42P05": "; a pooler is in between: add pooler=transaction to the URL",
	"26000": "; a pooler is in between: add pooler=transaction to the URL",
}

// undone reports whether the server has rolled back the call. A FATAL error can arrive after the commit.
func undone(err error) bool {
	if rejected, ok := errors.AsType[*pgconn.PgError](err); ok {
		return rejected.SeverityUnlocalized == "ERROR" && rejected.Code != "40003" && rejected.Code != "08007"
	}
	return unsent(err)
}

func unsent(err error) bool {
	_, never := errors.AsType[*unsentError](err)
	return never || pgconn.SafeToRetry(err)
}

// collided reports a serialization failure or a deadlock. Verge's own statements cause neither, but a
// trigger or another program on the same tables can.
func collided(err error) bool {
	rejected, ok := errors.AsType[*pgconn.PgError](err)
	return ok && undone(err) && (rejected.Code == "40001" || rejected.Code == "40P01")
}

func isReadOnly(err error) bool {
	rejected, ok := errors.AsType[*pgconn.PgError](err)
	return ok && rejected.Code == "25006"
}

// writesAgain reports whether a call that writes can be sent again after err. A connection that could not
// be opened is not retried, because that attempt took long enough already.
func writesAgain(err error) bool {
	var no *unsentError
	return collided(err) || !errors.As(err, &no) && pgconn.SafeToRetry(err)
}

// readsAgain reports whether a read can be sent again after err. It can if its connection broke, as all
// connections do when a server restarts.
func readsAgain(err error) bool {
	var rejected *pgconn.PgError
	var no *unsentError
	switch {
	case errors.Is(err, pgx.ErrNoRows), errors.As(err, &no):
		return false
	case errors.As(err, &rejected):
		return collided(err) || rejected.SeverityUnlocalized != "ERROR"
	}
	return true
}

// failed returns the error of a call that cannot have changed data, or whose changes are harmless.
func failed(doing string, err error) error {
	return fmt.Errorf("postgres: %s: %w: %w%s", doing, kv.ErrUnavailable, err, helpFor(err))
}

// commitFailed returns the error of a commit.
func commitFailed(err error) error {
	if undone(err) {
		return failed("commit", err)
	}
	return fmt.Errorf("postgres: commit: %w: %w%s", kv.ErrUnknown, err, helpFor(err))
}

func helpFor(err error) string {
	if rejected, ok := errors.AsType[*pgconn.PgError](err); ok {
		return help[rejected.Code]
	}
	return ""
}

func cancelled(ctx context.Context, doing string) error {
	if ctx.Err() == nil {
		return nil
	}
	return failed(doing, context.Cause(ctx))
}

// warning is the key under which a connection stores the latest warning of its server.
const warning = "verge warning"

// noticed stores warnings. The statements of a commit cause none. The server sends one if it stops waiting
// for a synchronous replica that does not have the commit yet, and then reports success.
func noticed(c *pgconn.PgConn, n *pgconn.Notice) {
	if n.SeverityUnlocalized == "WARNING" {
		c.CustomData()[warning] = n.Message
	}
}

func beginCommit(c *pgx.Conn) { delete(c.PgConn().CustomData(), warning) }

// warned returns an error if the server has warned since beginCommit.
func warned(c *pgx.Conn) error {
	if text, ok := c.PgConn().CustomData()[warning]; ok {
		return fmt.Errorf("the server has committed but warns: %v", text)
	}
	return nil
}
