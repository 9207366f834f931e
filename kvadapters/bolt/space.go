package bolt

import (
	"context"
	"encoding/binary"
	"os"

	"go.etcd.io/bbolt"

	"github.com/verge-id/verge/core/kv"
)

// Measure implements kv.Measurer. It reads the first record of one bucket, and counters in memory. Space in
// which the file can still grow is the free space of its disk.
func (s *Store) Measure(ctx context.Context) (kv.Space, error) {
	space := kv.Space{DeadRows: -1}
	info, err := os.Stat(s.path)
	if err != nil {
		return kv.Space{}, unavailable(s.path, err)
	}
	space.Size = info.Size()
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		// Freed pages count from the last write on. The rest of the file follows the last page in use.
		space.Unused = int64(tx.DB().Stats().FreePageN)*int64(tx.DB().Info().PageSize) +
			max(0, space.Size-tx.Size())
		if k, _ := tx.Bucket(bucketExpiry).Cursor().First(); k != nil {
			space.Overdue = max(0, s.now().Sub(fromSortable(binary.BigEndian.Uint64(k))))
		}
		return nil
	})
	if err != nil {
		return kv.Space{}, err
	}
	space.Free, space.Capacity = diskSpace(s.path)
	return space, nil
}
