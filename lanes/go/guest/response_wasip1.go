package guest

import (
	"bufio"
	"context"
	"net/http"
	"strings"

	"svc/guest/internal/wasi"
)

// bufferSize is how much a handler may write before it is sent without a Flush, in bytes, as in net/http.
const bufferSize = 4096

// connectionFields are the server's to send.
var connectionFields = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Connection": true, "Transfer-Encoding": true, "Upgrade": true,
}

// responseWriter is the http.ResponseWriter of hosted requests; it is an http.Flusher too.
type responseWriter struct {
	ctx      context.Context
	cancel   context.CancelFunc
	incoming wasi.Request
	bodyless bool
	header   http.Header
	status   int
	buffer   *bufio.Writer
	body     *wasi.Writer
	err      error
}

func newResponseWriter(
	ctx context.Context, cancel context.CancelFunc, incoming wasi.Request, request *http.Request,
) *responseWriter {
	w := &responseWriter{ctx: ctx, cancel: cancel, incoming: incoming, header: make(http.Header)}
	w.bodyless = request.Method == http.MethodHead
	w.buffer = bufio.NewWriterSize(sender{w}, bufferSize)
	return w
}

func (w *responseWriter) Header() http.Header { return w.header }

func (w *responseWriter) WriteHeader(status int) {
	if status < 200 || w.status != 0 {
		return
	}
	w.status = status
	if status == http.StatusNoContent || status == http.StatusNotModified {
		w.bodyless = true
	}
}

func (w *responseWriter) Write(data []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.bodyless {
		if w.status == http.StatusNoContent || w.status == http.StatusNotModified {
			return 0, http.ErrBodyNotAllowed
		}
		return len(data), nil
	}
	if w.body == nil && len(data) > 0 {
		w.sniff(data)
	}
	return w.buffer.Write(data)
}

func (w *responseWriter) WriteString(text string) (int, error) { return w.Write([]byte(text)) }

func (w *responseWriter) sniff(data []byte) {
	_, named := w.header["Content-Type"]
	if !named && w.header.Get("Content-Encoding") == "" {
		w.header.Set("Content-Type", http.DetectContentType(data))
	}
}

// Flush sends what was written.
func (w *responseWriter) Flush() { _ = w.FlushError() }

// FlushError sends what was written, and tells when nobody takes it any more.
func (w *responseWriter) FlushError() error {
	w.WriteHeader(http.StatusOK)
	if err := w.start(); err != nil {
		return err
	}
	if err := w.buffer.Flush(); err != nil {
		return err
	}
	return w.note(w.body.Flush())
}

// EnableFullDuplex tells http.ResponseController that a body may be read while the response is written.
func (w *responseWriter) EnableFullDuplex() error { return nil }

// start sends the head, once.
func (w *responseWriter) start() error {
	if w.body != nil || w.err != nil {
		return w.err
	}
	headers := make([]wasi.Header, 0, len(w.header))
	for name, values := range w.header {
		if connectionFields[name] {
			continue
		}
		for _, value := range values {
			headers = append(headers, wasi.Header{Name: strings.ToLower(name), Value: value})
		}
	}
	body, ok := w.incoming.Respond(w.ctx, w.status, headers)
	if !ok {
		panic("the response has a header field or a status that is not well-formed")
	}
	w.body = body
	return nil
}

// note keeps a write's error: the client is gone then, and the request's context ends.
func (w *responseWriter) note(err error) error {
	if err != nil && w.err == nil {
		w.err = err
		w.cancel()
	}
	return err
}

// finish sends the rest. A body that could not be sent whole stays unfinished, so that the client can tell.
func (w *responseWriter) finish() {
	w.WriteHeader(http.StatusOK)
	if w.start() != nil || w.buffer.Flush() != nil {
		return
	}
	_ = w.body.Finish()
}

// sender is the writer behind the buffer.
type sender struct{ w *responseWriter }

func (s sender) Write(data []byte) (int, error) {
	if err := s.w.start(); err != nil {
		return 0, err
	}
	n, err := s.w.body.Write(data)
	return n, s.w.note(err)
}
