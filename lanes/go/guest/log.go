package guest

import (
	"log/slog"
	"os"
	"strings"
)

// Log writes structured records, which are stored with their request.
//
//	guest.Log.Info("order placed", "id", 42)
//
// Hosted, they go to the telemetry Door. They are sent in batches: when the handler returns or panics, at an
// error, when there are many, and 20 ms after the first one. If the program ends otherwise (os.Exit, a limit),
// unsent records are lost; FlushLog sends them.
//
// Elsewhere each record is a line of JSON on standard error. To make package slog write here too:
//
//	slog.SetDefault(guest.Log)
var Log = slog.New(LogHandler(slog.LevelDebug))

// LogHandler returns the handler behind Log, for records of this level and above.
func LogHandler(level slog.Leveler) slog.Handler {
	if door != nil {
		return &doorHandler{level: level}
	}
	return slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level, ReplaceAttr: brief})
}

// FlushLog sends the records in the batch.
func FlushLog() {
	if door != nil {
		door.flush()
	}
}

func brief(groups []string, attribute slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return attribute
	}
	switch attribute.Key {
	case slog.TimeKey:
		return slog.Attr{} // The host records the time.
	case slog.LevelKey:
		return slog.String(slog.LevelKey, strings.ToLower(attribute.Value.String()))
	}
	return attribute
}
