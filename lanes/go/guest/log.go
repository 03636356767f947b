package guest

import (
	"log/slog"
	"os"
	"strings"
)

// Log writes structured records, which `svc logs` shows with the request that they belong to: a line of JSON
// each, on standard error.
//
//	guest.Log.Info("order placed", "id", 42)
var Log = slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{
	Level: slog.LevelDebug,
	ReplaceAttr: func(groups []string, attribute slog.Attr) slog.Attr {
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
	},
}))
