package guest

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	"svc/guest/internal/wasi"
)

// bufferSize is the size in bytes of the buffer that is sent without a Flush, as in net/http.
const bufferSize = 4096

// connectionFields are header fields that only the server sends.
var connectionFields = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Connection": true, "Trailer": true, "Transfer-Encoding": true,
	"Upgrade": true,
}

// lineEnds removes line breaks from header values, as net/http does.
var lineEnds = strings.NewReplacer("\n", " ", "\r", " ")

// responseWriter is the http.ResponseWriter and http.Flusher of hosted requests. It treats HEAD as GET:
// the server omits the body.
type responseWriter struct {
	ctx      context.Context
	cancel   context.CancelFunc
	incoming wasi.Request
	header   http.Header
	sent     http.Header // as it was when the handler gave the status
	status   int
	begun    bool // something was written
	informed bool // an informational response was logged
	buffer   *bufio.Writer
	body     *wasi.Writer
	err      error
}

func newResponseWriter(ctx context.Context, cancel context.CancelFunc, incoming wasi.Request) *responseWriter {
	w := &responseWriter{ctx: ctx, cancel: cancel, incoming: incoming, header: make(http.Header)}
	w.buffer = bufio.NewWriterSize(sender{w}, bufferSize)
	return w
}

func (w *responseWriter) Header() http.Header { return w.header }

// WriteHeader fixes the status and the header fields. Informational responses are not sent.
func (w *responseWriter) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %d", status))
	}
	if status < 200 {
		w.noteInformational(status)
		return
	}
	if w.status != 0 {
		return
	}
	w.status = status
	w.sent = w.header.Clone()
}

// noteInformational logs that a response of this status is not sent. The server itself handles Expect: 100-continue.
func (w *responseWriter) noteInformational(status int) {
	if status != http.StatusContinue && !w.informed {
		w.informed = true
		fmt.Fprintf(os.Stderr, "svc: the informational response %d %s is not sent\n", status, http.StatusText(status))
	}
}

// bodyless reports whether a response of this status has no body (RFC 9110, 6.4.1).
func (w *responseWriter) bodyless() bool {
	return w.status == http.StatusNoContent || w.status == http.StatusNotModified
}

func (w *responseWriter) Write(data []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.bodyless() {
		return 0, http.ErrBodyNotAllowed
	}
	if !w.begun && len(data) > 0 {
		w.begun = true
		w.sniff(data)
	}
	return w.buffer.Write(data)
}

func (w *responseWriter) WriteString(text string) (int, error) { return w.Write([]byte(text)) }

func (w *responseWriter) sniff(data []byte) {
	_, named := w.sent["Content-Type"]
	if !named && w.sent.Get("Content-Encoding") == "" {
		w.sent.Set("Content-Type", http.DetectContentType(data))
	}
}

// Flush sends the written data.
func (w *responseWriter) Flush() { _ = w.FlushError() }

// FlushError sends the written data, and returns an error if the client has disconnected.
func (w *responseWriter) FlushError() error {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if err := w.start(); err != nil {
		return err
	}
	if err := w.buffer.Flush(); err != nil {
		return err
	}
	return w.note(w.body.Flush())
}

// EnableFullDuplex lets http.ResponseController read a body while the response is written.
func (w *responseWriter) EnableFullDuplex() error { return nil }

// start sends the head, once.
func (w *responseWriter) start() error {
	if w.body != nil || w.err != nil {
		return w.err
	}
	headers := make([]wasi.Header, 0, len(w.sent))
	for _, name := range slices.Sorted(maps.Keys(w.sent)) {
		if connectionFields[name] || !isToken(name) {
			continue
		}
		for _, value := range w.sent[name] {
			value = strings.TrimSpace(lineEnds.Replace(value))
			headers = append(headers, wasi.Header{Name: strings.ToLower(name), Value: value})
		}
	}
	body, ok := w.incoming.Respond(w.ctx, w.status, headers)
	if !ok {
		panic(fmt.Sprintf("the host rejects the response's status %d or header %v", w.status, w.sent))
	}
	w.body = body
	return nil
}

// note stores a write's error, which means that the client has disconnected, and cancels the request's context.
func (w *responseWriter) note(err error) error {
	if err != nil && w.err == nil {
		w.err = err
		w.cancel()
	}
	return err
}

// measure sets the content length of a complete body, as net/http does.
func (w *responseWriter) measure() {
	_, declared := w.sent["Content-Length"]
	size := w.buffer.Buffered()
	if w.body != nil || declared || w.bodyless() || size == 0 && w.incoming.Method() == http.MethodHead {
		return
	}
	w.sent.Set("Content-Length", strconv.Itoa(size))
}

// finish sends the rest. An incomplete body is not finished, so that the client can detect it.
func (w *responseWriter) finish() {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	w.measure()
	if w.start() != nil || w.buffer.Flush() != nil {
		return
	}
	_ = w.body.Finish(w.trailers())
}

// trailers returns the fields that the handler announced by Trailer and set, and those with http.TrailerPrefix.
func (w *responseWriter) trailers() []wasi.Header {
	announced := make(http.Header)
	for _, names := range w.sent["Trailer"] {
		for name := range strings.SplitSeq(names, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			announced[name] = w.header[name]
		}
	}
	for name, values := range w.header {
		if name, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			announced[http.CanonicalHeaderKey(name)] = values
		}
	}
	return trailerHeaders(announced)
}

func trailerHeaders(trailer http.Header) []wasi.Header {
	var headers []wasi.Header
	for name, values := range trailer {
		for _, value := range values {
			headers = append(headers, wasi.Header{Name: strings.ToLower(name), Value: lineEnds.Replace(value)})
		}
	}
	return headers
}

// abort ends the exchange without a complete response: the host closes the connection, and reports no failure.
func (w *responseWriter) abort() {
	w.cancel()
	if w.body == nil {
		w.incoming.Abort()
		return
	}
	w.body.Abort()
	FlushLog()
	os.Exit(0)
}

// sender is the writer that the buffer flushes to.
type sender struct{ w *responseWriter }

func (s sender) Write(data []byte) (int, error) {
	if err := s.w.start(); err != nil {
		return 0, err
	}
	n, err := s.w.body.Write(data)
	return n, s.w.note(err)
}

// isToken reports whether a text is a valid name of a header field (RFC 9110, 5.6.2).
func isToken(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}
