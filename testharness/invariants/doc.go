// Package invariants proves what Verge promises under faults.
package invariants
