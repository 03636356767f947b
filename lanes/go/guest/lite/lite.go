// Package lite serves HTTP requests without net/http: its components have a quarter of the size and start
// sooner. It has the functions that small services need; svc/guest supports all of net/http.
//
//	func main() {
//		lite.Serve(func(w *lite.Response, r *lite.Request) {
//			w.Header("Content-Type", "text/plain")
//			w.Write([]byte("hello " + r.Path))
//		})
//	}
//
// With `go run .` the same program listens on $ADDR, or on 127.0.0.1:8080.
package lite

import (
	"context"
	"io"
	"strings"
	"time"

	"svc/guest/internal/sse"
)

// Header is a header field.
type Header struct {
	Name  string
	Value string
}

// Request is an incoming request.
type Request struct {
	// Context ends when the client disconnects or the response is complete.
	Context context.Context
	Method  string
	// Path is the path as sent, still encoded and without the query.
	Path  string
	Query string
	// Headers are in the order of the request, including Host.
	Headers []Header
	// Body is the body, read as it arrives. It is never nil.
	Body io.Reader
}

// Header returns the value of the first header field of that name, ignoring case, or an empty string.
func (r *Request) Header(name string) string { return find(r.Headers, name) }

// Response writes a response; it is an io.Writer.
type Response struct {
	status  int
	headers []Header
	body    body
	begin   func(status int, headers []Header) body
}

// body is the destination of a response's bytes.
type body interface {
	Write(data []byte) (int, error)
	Flush() error
}

// Status sets the status; without it, it is 200. Call it before the first Write.
func (w *Response) Status(status int) { w.status = status }

// Header adds a header field. Call it before the first Write.
func (w *Response) Header(name, value string) { w.headers = append(w.headers, Header{name, value}) }

// Write sends bytes. It fails if the client has disconnected.
func (w *Response) Write(data []byte) (int, error) {
	w.start()
	return w.body.Write(data)
}

// Flush sends the written bytes at once, and waits while the client is slow.
func (w *Response) Flush() error {
	w.start()
	return w.body.Flush()
}

func (w *Response) start() {
	if w.body == nil {
		w.body = w.begin(w.status, w.headers)
	}
}

// Event is one message of an event stream (HTML Living Standard, 9.2).
type Event struct {
	ID    string
	Name  string
	Data  string
	Retry time.Duration
}

// Events is the response to one EventSource.
type Events struct{ response *Response }

// NewEvents starts an event stream. Each event is sent at once.
func NewEvents(w *Response) *Events {
	w.Header("Content-Type", "text/event-stream")
	w.Header("Cache-Control", "no-cache")
	return &Events{w}
}

// Send sends an event. It fails if the client has disconnected.
func (e *Events) Send(event Event) error {
	return e.write(sse.Event(event.ID, event.Name, event.Data, event.Retry))
}

// Comment sends lines that clients ignore. They prevent an idle timeout of the connection.
func (e *Events) Comment(comment string) error { return e.write(sse.Comment(comment)) }

func (e *Events) write(text string) error {
	if _, err := e.response.Write([]byte(text)); err != nil {
		return err
	}
	return e.response.Flush()
}

// Outgoing is a request to another server.
type Outgoing struct {
	// Method is the method (default: GET).
	Method  string
	URL     string
	Headers []Header
	Body    io.Reader
}

// Incoming is another server's response. Close its body after reading it.
type Incoming struct {
	Status  int
	Headers []Header
	Body    io.ReadCloser
}

// Header returns the value of the first header field of that name, ignoring case, or an empty string.
func (r *Incoming) Header(name string) string { return find(r.Headers, name) }

// Fetch sends a request to an origin that `egress` of svc.toml names; redirects are not followed.
func Fetch(ctx context.Context, request Outgoing) (*Incoming, error) {
	if request.Method == "" {
		request.Method = "GET"
	}
	return fetch(ctx, request)
}

// Serve handles requests with the function. Call it at the end of main.
func Serve(answer func(w *Response, r *Request)) { serve(answer) }

func find(headers []Header, name string) string {
	for _, header := range headers {
		if strings.EqualFold(header.Name, name) {
			return header.Value
		}
	}
	return ""
}
