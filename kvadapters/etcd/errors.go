package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/stats"

	"github.com/verge-id/verge/core/kv"
)

// sent learns from grpc whether a call began to leave this process. An error code alone cannot tell:
// Unavailable means either that a dial was refused or that a connection broke while the answer was on
// its way.
type sent struct{}

var _ stats.Handler = sent{}

func withSent(ctx context.Context) (context.Context, *atomic.Bool) {
	left := new(atomic.Bool)
	return context.WithValue(ctx, sent{}, left), left
}

func (sent) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (sent) HandleRPC(ctx context.Context, s stats.RPCStats) {
	switch s.(type) {
	case *stats.OutHeader, *stats.OutPayload:
		if left, ok := ctx.Value(sent{}).(*atomic.Bool); ok {
			left.Store(true)
		}
	}
}

func (sent) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (sent) HandleConn(context.Context, stats.ConnStats)                       {}

// refusals are the answers of a server that has changed nothing. ErrNoSpace is not among them, because
// the servers apply the request that crosses the quota and then answer it with this error. Timeouts and
// lost leaders are not among them either.
var refusals = []struct {
	err  error
	help string
}{
	{rpctypes.ErrRequestTooLarge, "; Config.MaxRequest is above the servers' --max-request-bytes"},
	{rpctypes.ErrTooManyOps, "; the servers' --max-txn-ops must be 128, its default, or more"},
	{rpctypes.ErrPermissionDenied, "; grant the user's role readwrite on the whole prefix"},
	{rpctypes.ErrUserEmpty, "; the servers want a user and password: etcd://user:password@host"},
	{rpctypes.ErrAuthFailed, "; user or password is wrong"},
	{rpctypes.ErrAuthNotEnabled, "; the URL names a user, but the servers have authentication switched off"},
	{rpctypes.ErrInvalidAuthToken, ""},
	{rpctypes.ErrAuthOldRevision, ""},
	{rpctypes.ErrTooManyRequests, "; the servers have not yet applied the requests that they agreed on"},
	{rpctypes.ErrNoLeader, "; the server has lost the majority of its cluster"},
	{rpctypes.ErrEmptyKey, ""},
	{rpctypes.ErrDuplicateKey, ""},
	{rpctypes.ErrNotCapable, "; etcd 3.4 or later is needed"},
}

// refused reports whether err is a server's answer that nothing changed.
func refused(err error) (help string, ok bool) {
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			return r.help, true
		}
	}
	if errors.Is(err, rpctypes.ErrNoSpace) {
		return "; the database has reached its quota: compact, defragment, then etcdctl alarm disarm", false
	}
	return "", false
}

// failed returns the error of a call that cannot have changed anything, or that may have done so
// without harm.
func failed(doing string, err error) error {
	help, _ := refused(err)
	return fmt.Errorf("etcd: %s: %w: %w%s", doing, kv.ErrUnavailable, err, help)
}

// commitFailed returns the error of a commit.
func commitFailed(err error, left bool) error {
	help, ok := refused(err)
	if ok || !left {
		return failed("commit", err)
	}
	return fmt.Errorf("etcd: commit: %w: %w%s", kv.ErrUnknown, err, help)
}

func damaged(key, what string) error {
	return fmt.Errorf("etcd: %w: key %q %s: another program writes under the prefix, or the store is damaged",
		kv.ErrUnavailable, key, what)
}

func cancelled(ctx context.Context, doing string) error {
	if ctx.Err() == nil {
		return nil
	}
	return failed(doing, context.Cause(ctx))
}
