// Each request runs this program from main on, in a new WebAssembly instance: nothing in memory survives.
package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"time"

	"svc/guest"
)

const ticks = 50 // 25 s, within run_limit_secs; the browser reconnects by itself.

func main() {
	http.HandleFunc("GET /go/hello", hello)
	http.HandleFunc("GET /go/events", events)
	http.HandleFunc("POST /go/echo", echo)
	http.HandleFunc("GET /go/fail", fail)
	guest.Serve(nil)
}

type greeting struct {
	Lane    string `json:"lane"`
	Message string `json:"message"`
	Method  string `json:"method"`
	Path    string `json:"path"`
	Runtime string `json:"runtime"`
	Request string `json:"request"`
}

func hello(w http.ResponseWriter, r *http.Request) {
	guest.Log.Info("hello", "lane", "go", "method", r.Method, "path", r.URL.Path)
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(greeting{
		Lane:    "go",
		Message: "Hello from Go",
		Method:  r.Method,
		Path:    r.URL.Path,
		Runtime: runtime.Version(),
		Request: os.Getenv("SVC_REQUEST_ID"),
	})
}

type tick struct {
	Lane string `json:"lane"`
	N    int    `json:"n"`
}

// When the client disconnects, the next Send fails and the handler returns.
func events(w http.ResponseWriter, r *http.Request) {
	seen, _ := strconv.Atoi(r.Header.Get("Last-Event-ID"))
	stream := guest.NewEvents(w)
	every := time.NewTicker(500 * time.Millisecond)
	defer every.Stop()
	for n := seen + 1; n <= seen+ticks; n++ {
		event := guest.Event{ID: strconv.Itoa(n), Retry: 500 * time.Millisecond, Data: tick{"go", n}}
		if stream.Send(event) != nil {
			return
		}
		<-every.C
	}
}

// Returns the request body while it arrives, in constant memory.
func echo(w http.ResponseWriter, r *http.Request) {
	kind := r.Header.Get("Content-Type")
	if kind == "" {
		kind = "application/octet-stream"
	}
	w.Header().Set("Content-Type", kind)
	control := http.NewResponseController(w)
	control.EnableFullDuplex()
	io.Copy(flushed{w, control}, r.Body)
}

// flushed sends each write at once.
type flushed struct {
	io.Writer
	control *http.ResponseController
}

func (f flushed) Write(data []byte) (int, error) {
	n, err := f.Writer.Write(data)
	if err != nil {
		return n, err
	}
	return n, f.control.Flush()
}

func fail(http.ResponseWriter, *http.Request) {
	guest.Log.Warn("about to fail", "lane", "go")
	panic("panicked on purpose")
}
