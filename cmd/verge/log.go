package main

import "log/slog"

// logLevel reads a level's name; which names there are has been checked.
func logLevel(name string) slog.Level {
	var level slog.Level
	if level.UnmarshalText([]byte(name)) != nil {
		return slog.LevelInfo
	}
	return level
}
