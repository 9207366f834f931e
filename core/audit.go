package core

import (
	"io"
	"log/slog"

	"github.com/verge-id/verge/core/internal/audit"
)

// AuditLog returns a log handler that chains the audit entries in the log by hashes, so that an [AuditChain]
// finds a missing or changed line.
func AuditLog(h slog.Handler, random io.Reader) slog.Handler { return audit.Chained(h, random) }

// AuditChain checks the audit entries of logs, line by line.
type AuditChain = audit.Chain
