package postgres

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/verge-id/verge/core/kv"
)

// signalSQL is a separate transaction. When a transaction with a NOTIFY commits, it takes a lock for which
// all such transactions of the database wait. This one holds it only for a moment: it has no other writes
// and waits neither for the disk nor for a replica. If another program holds the lock for longer, the
// signal fails soon, because it occupies a connection of the pool.
const signalSQL = `
SELECT set_config('synchronous_commit', 'off', true), set_config('lock_timeout', '100ms', true),
	pg_notify($1, $2)`

// listenLook is the interval at which the Store pings the server on the listening connection. Otherwise it
// would not notice a connection that the network has dropped.
const listenLook = time.Minute

// channel returns the channel on which the instances with the same tables send signals.
func (s *Store) channel() string { return "verge:" + s.schema }

// newInstance returns the id that identifies a Store's own signals.
func newInstance(random io.Reader) (string, error) {
	var drawn [8]byte
	if _, err := io.ReadFull(random, drawn[:]); err != nil {
		return "", fmt.Errorf("postgres: %w", err)
	}
	return hex.EncodeToString(drawn[:]), nil
}

// Signal asks the other instances to claim the tasks of a partition. It implements edge.Signaler. At
// most one connection of the pool is in use for signals.
func (s *Store) Signal(ctx context.Context, p kv.Partition) error {
	if !s.signals {
		return errors.New("postgres: signals are off")
	}
	return s.signal(ctx, s.partition(p))
}

// signal sends the name of a partition, or "", which other instances ignore.
func (s *Store) signal(ctx context.Context, partition string) error {
	select {
	case s.signalling <- struct{}{}:
		defer func() { <-s.signalling }()
	case <-ctx.Done():
		return failed("signal", context.Cause(ctx))
	}
	never := func(error) bool { return false }
	err := s.do(ctx, never, func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, signalSQL, s.channel(), s.instance+" "+partition)
		return err
	})
	if err != nil {
		return failed("signal", err)
	}
	return nil
}

// Signals listens on a separate connection and calls heard for each signal of another instance. It calls
// heard with "" when its own signal has arrived, which shows that signals work. It returns nil when ctx is
// done or if signals are off, and an error if the connection breaks.
func (s *Store) Signals(ctx context.Context, heard func(p kv.Partition)) error {
	if !s.signals {
		return nil
	}
	err := s.listen(ctx, heard)
	if ctx.Err() != nil {
		return nil
	}
	return failed("listening for signals", err)
}

// listen opens a connection to the server that accepts writes, and listens until it breaks.
func (s *Store) listen(ctx context.Context, heard func(p kv.Partition)) error {
	config := s.pool.Config().ConnConfig
	config.RuntimeParams["application_name"] = "verge signals"
	c, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		c.Close(ending)
	}()
	begin := `SET idle_session_timeout = 0; LISTEN ` + pgx.Identifier{s.channel()}.Sanitize()
	if _, err := c.Exec(ctx, begin); err != nil {
		return err
	}
	if err := s.signal(ctx, ""); err != nil {
		return err
	}
	return s.follow(ctx, c, heard)
}

// follow reads signals until ctx is done or the connection breaks.
func (s *Store) follow(ctx context.Context, c *pgx.Conn, heard func(p kv.Partition)) error {
	arrive := false
	for {
		wait := s.look
		if !arrive {
			wait = s.timeout
		}
		within, cancel := context.WithTimeout(ctx, wait)
		n, err := c.WaitForNotification(within)
		over := within.Err() != nil
		cancel()
		switch {
		case err != nil && !over || ctx.Err() != nil:
			return err
		case err != nil && !arrive:
			return errors.New("the server takes LISTEN, but signals do not arrive: if a pooler in " +
				"transaction mode is in between, add pooler=transaction to the URL")
		case err != nil:
			if err := s.ask(ctx, c); err != nil {
				return err
			}
			continue
		}
		from, partition, _ := strings.Cut(n.Payload, " ")
		p, mine := strings.CutPrefix(partition, s.within)
		switch {
		case from == s.instance && partition == "":
			arrive = true
			heard("")
		case from != s.instance && p != "" && mine:
			heard(kv.Partition(p))
		}
	}
}

// ask fails if the server does not respond on the connection.
func (s *Store) ask(ctx context.Context, c *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return c.Ping(ctx)
}
