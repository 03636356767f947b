package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"svc/guest"
	"svc/guest/jobs"
	"svc/guest/tables"
)

const (
	order = "INSERT INTO orders (id, lane) VALUES ($1, 'go')"
	ran   = "INSERT INTO runs (lane, path, job, try, body) VALUES ('go', $1, $2, $3, $4)"
)

func main() {
	http.HandleFunc("/order", addOrder)
	http.HandleFunc("/remove", remove)
	http.HandleFunc("/forever", forever)
	http.HandleFunc("/", add)
	guest.Serve(nil)
}

// run is the code of a job: it fails in its first try if the path says so.
func run(w http.ResponseWriter, r *http.Request, job string) {
	body, err := io.ReadAll(r.Body)
	try := r.Header.Get("X-Svc-Job-Try")
	if err == nil {
		_, err = tables.Exec(r.Context(), ran, r.URL.Path, job, try, body)
	}
	switch {
	case err != nil:
		http.Error(w, err.Error(), 500)
	case r.URL.Path == "/gone":
		w.WriteHeader(410)
	case r.URL.Path == "/again" && try == "1":
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(503)
	}
}

func addOrder(w http.ResponseWriter, r *http.Request) {
	if job := r.Header.Get("X-Svc-Job"); job != "" {
		run(w, r, job)
		return
	}
	mail := jobs.SQL("/order", map[string]string{"text": "ü"}, jobs.Options{})
	_, err := tables.Batch(r.Context(), tables.Prepare(order, r.URL.RawQuery), mail)
	reply(w, err, err == nil)
}

func add(w http.ResponseWriter, r *http.Request) {
	if job := r.Header.Get("X-Svc-Job"); job != "" {
		run(w, r, job)
		return
	}
	options := jobs.Options{Key: r.URL.RawQuery}
	if options.Key != "" {
		options.Delay = time.Hour
	}
	added, err := jobs.Add(r.Context(), r.URL.Path, []byte{0, 255}, options)
	reply(w, err, added)
}

func remove(w http.ResponseWriter, r *http.Request) {
	removed, err := jobs.RemoveKey(r.Context(), r.URL.RawQuery)
	reply(w, err, removed)
}

// forever writes until the client leaves, and a row then.
func forever(w http.ResponseWriter, r *http.Request) {
	for r.Context().Err() == nil {
		io.WriteString(w, ".")
		w.(http.Flusher).Flush()
		time.Sleep(10 * time.Millisecond)
	}
	tables.Exec(context.WithoutCancel(r.Context()), ran, r.URL.Path, r.Context().Err().Error(), nil, nil)
}

func reply(w http.ResponseWriter, err error, value any) {
	var refused *jobs.Error
	switch {
	case errors.As(err, &refused):
		http.Error(w, fmt.Sprint(refused.Code, ": ", refused.Detail), refused.Status)
	case err != nil:
		http.Error(w, err.Error(), 400)
	default:
		json.NewEncoder(w).Encode(value)
	}
}
