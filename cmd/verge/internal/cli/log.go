package cli

import "log/slog"

// logLevel returns the level of that name. The configuration's check rejects all other names.
func logLevel(name string) slog.Level {
	var level slog.Level
	if level.UnmarshalText([]byte(name)) != nil {
		return slog.LevelInfo
	}
	return level
}
