package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/verge-id/verge/core/kv"
)

// unsentError says that there was no connection, so nothing was sent.
type unsentError struct{ err error }

func (e *unsentError) Error() string { return e.err.Error() }
func (e *unsentError) Unwrap() error { return e.err }

// help says what an operator can do about an error of the server.
var help = map[string]string{
	"28P01": "; user or password is wrong",
	"28000": "; the server's pg_hba.conf does not let this user in from here",
	"3D000": "; create the database",
	"42501": "; the user must own the schema or may SELECT, INSERT, UPDATE and DELETE on all its tables",
	"53300": "; the server has no connection left: lower pool_max_conns or raise max_connections",
	"53100": "; the server's disk is full",
	"25006": "; the server takes no writes: name the primary too",
	"42P05": "; a pooler is in between: add pooler=transaction to the URL",
	"26000": "; a pooler is in between: add pooler=transaction to the URL",
}

// undone reports whether the server has taken back what it was asked to do. A FATAL error can come when it
// has committed already.
func undone(err error) bool {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused.SeverityUnlocalized == "ERROR" && refused.Code != "40003" && refused.Code != "08007"
	}
	return unsent(err)
}

func unsent(err error) bool {
	var no *unsentError
	return errors.As(err, &no) || pgconn.SafeToRetry(err)
}

// collided reports a serialization failure or a deadlock. Verge's own statements cause neither, but a
// trigger or another program on the same tables can.
func collided(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && undone(err) && (refused.Code == "40001" || refused.Code == "40P01")
}

func isReadOnly(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == "25006"
}

// writesAgain reports whether a call that changes something can be sent again after err. A connection
// that could not be made is not tried again: to find out takes long enough already.
func writesAgain(err error) bool {
	var no *unsentError
	return collided(err) || !errors.As(err, &no) && pgconn.SafeToRetry(err)
}

// readsAgain reports whether a read can be sent again after err: also when its connection broke, as all do
// that a server left behind that was restarted.
func readsAgain(err error) bool {
	var refused *pgconn.PgError
	var no *unsentError
	switch {
	case errors.Is(err, pgx.ErrNoRows), errors.As(err, &no):
		return false
	case errors.As(err, &refused):
		return collided(err) || refused.SeverityUnlocalized != "ERROR"
	}
	return true
}

// failed returns the error of a call that cannot have changed anything, or that may have done so without
// harm.
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
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return help[refused.Code]
	}
	return ""
}

func cancelled(ctx context.Context, doing string) error {
	if ctx.Err() == nil {
		return nil
	}
	return failed(doing, context.Cause(ctx))
}

// warning is the key under which a connection keeps the latest warning of its server.
const warning = "verge warning"

// noticed keeps warnings. None of the statements of a commit leads to one. The server sends one if it ends
// its wait for a synchronous replica before the replica has the commit, and then says that it committed.
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
