package bolt

import (
	"context"
	"encoding/binary"
	"os"

	"github.com/verge-id/verge/core/kv"
)

// Measure implements kv.Measurer. It reads the first record of one bucket, and counters in memory. The log
// is left out, because its size is limited. Space in which the file can still grow is the free space of its
// disk.
func (s *Store) Measure(ctx context.Context) (kv.Space, error) {
	space := kv.Space{DeadRows: -1}
	info, err := os.Stat(s.path)
	if err != nil {
		return kv.Space{}, unavailable(s.path, err)
	}
	space.Size = info.Size()
	err = s.view(ctx, func(st state) error {
		tx := st.tx
		// Freed pages count from the last write on. The rest of the file follows the last page in use.
		space.Unused = int64(tx.DB().Stats().FreePageN)*int64(tx.DB().Info().PageSize) +
			max(0, space.Size-tx.Size())
		if k, _ := st.seek(expiryTable, nil).next(); k != nil {
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
