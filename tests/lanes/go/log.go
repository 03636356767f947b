package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"svc/guest"
)

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		log := guest.Log.With("lane", "go").WithGroup("request")
		log.Debug("first", "n", 7, "ok", true, "err", errors.New("gone"), slog.Group("at", "level", 2))
		switch r.URL.Path {
		case "/panic":
			panic("panicked")
		case "/exit":
			guest.Log.Error("the end")
			os.Exit(3)
		case "/sleep":
			time.Sleep(300 * time.Millisecond)
		case "/spin":
			time.Sleep(100 * time.Millisecond)
			for {
			}
		case "/flush":
			guest.FlushLog()
			for {
			}
		case "/many":
			for n := range 1000 {
				guest.Log.Info(fmt.Sprint("number ", n))
			}
		case "/default":
			slog.SetDefault(slog.New(guest.LogHandler(slog.LevelWarn)))
			slog.Info("not this")
			slog.Warn("this")
		}
		guest.Log.Info("second")
		guest.Log.Warn("third")
		fmt.Fprint(w, "hello")
	})
	guest.Serve(nil)
}
