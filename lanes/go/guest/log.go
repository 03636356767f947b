package guest

import (
	"log/slog"
	"os"
	"strings"
)

// Log writes structured records, which are kept with the request that they belong to.
//
//	guest.Log.Info("order placed", "id", 42)
//
// Hosted, they go to the telemetry Door. They are sent together: when the handler is over or panics, at an
// error, when there are many, and 20 ms after the first one. What ends the program otherwise (os.Exit, a limit)
// loses those that were not sent; FlushLog sends them.
//
// Elsewhere each record is a line of JSON on standard error. To have package slog write here too:
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

// FlushLog sends the records that wait.
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
		return slog.Attr{} // The host knows it.
	case slog.LevelKey:
		return slog.String(slog.LevelKey, strings.ToLower(attribute.Value.String()))
	}
	return attribute
}
