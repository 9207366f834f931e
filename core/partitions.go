package core

import (
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/passkey"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/usage"
	"github.com/verge-id/verge/core/kv"
)

// StorePartitions returns all partitions of a store whose sessions are spread over n partitions.
func StorePartitions(n int) []kv.Partition {
	all := []kv.Partition{integration.Partition}
	for p := range n {
		all = append(all, session.Partition(p).Name())
	}
	return append(append(all, usage.Partitions()...), passkey.Partitions()...)
}
