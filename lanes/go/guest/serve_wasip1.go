package guest

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"svc/guest/internal/entry"
	"svc/guest/internal/wasi"
)

var hosted http.Handler

func serve(handler http.Handler) {
	hosted = handler
	entry.Serve(answer)
}

func answer(incoming wasi.Request) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer FlushLog() // when the handler panics, too
	request, err := newRequest(ctx, incoming)
	writer := newResponseWriter(ctx, cancel, incoming)
	request = request.WithContext(wasi.Watching(ctx, func(err error) { _ = writer.note(err) }))
	aborted := false
	defer func() {
		if aborted {
			writer.abort()
		}
	}()
	defer func() {
		if wasi.Panicking() == http.ErrAbortHandler {
			aborted = recover() != nil
		}
	}()
	if err != nil {
		http.Error(writer, "400 Bad Request: "+err.Error(), http.StatusBadRequest)
	} else {
		hosted.ServeHTTP(writer, request)
		request.Body.Close()
	}
	writer.finish()
}

// headerKey returns the canonical form of the name of a header field. http.CanonicalHeaderKey builds a table at its
// first call, which is once a request here.
func headerKey(name string) string {
	key, first := []byte(name), true
	for i, c := range key {
		if first && 'a' <= c && c <= 'z' {
			key[i] = c - 'a' + 'A'
		}
		first = c == '-'
	}
	return string(key)
}

// newRequest creates the request for the handler. It is never nil.
func newRequest(ctx context.Context, incoming wasi.Request) (*http.Request, error) {
	target := incoming.Path()
	address, err := url.ParseRequestURI(target)
	if err != nil {
		address = &url.URL{Path: "/"}
	}
	request := &http.Request{
		Method:        incoming.Method(),
		URL:           address,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		ContentLength: -1,
		RequestURI:    target,
		RemoteAddr:    "0.0.0.0:0",
	}
	fields := incoming.Headers()
	values := make([]string, len(fields))
	request.Header = make(http.Header, len(fields))
	for i, field := range fields {
		if field.Name == "host" {
			if request.Host == "" {
				request.Host = field.Value
			}
			continue
		}
		key := headerKey(field.Name)
		if earlier, found := request.Header[key]; found {
			request.Header[key] = append(earlier, field.Value)
			continue
		}
		values[i] = field.Value
		request.Header[key] = values[i : i+1 : i+1]
	}
	if request.Host == "" {
		request.Host = incoming.Authority()
	}
	length := request.Header.Get("Content-Length")
	if size, err := strconv.ParseInt(length, 10, 64); err == nil {
		request.ContentLength = size
	}
	if request.ContentLength == 0 || length == "" && (request.Method == "GET" || request.Method == "HEAD") {
		request.ContentLength, request.Body = 0, http.NoBody
	} else if body := incoming.Body(ctx); length == "" && body.Empty() {
		request.ContentLength, request.Body = 0, http.NoBody
	} else {
		request.Body = body
	}
	return request, err
}
