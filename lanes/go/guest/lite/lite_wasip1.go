package lite

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"

	"svc/guest/internal/entry"
	"svc/guest/internal/wasi"
)

func serve(answer func(*Response, *Request)) {
	entry.Serve(func(incoming wasi.Request) { respond(incoming, answer) })
}

func respond(incoming wasi.Request, answer func(*Response, *Request)) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	path, query, _ := strings.Cut(incoming.Path(), "?")
	request := &Request{
		Context: wasi.Watching(ctx, func(error) { cancel() }),
		Method:  incoming.Method(),
		Path:    path,
		Query:   query,
		Headers: headersOf(incoming.Headers()),
		Body:    &lazyBody{ctx: ctx, request: incoming},
	}
	if request.Header("Host") == "" {
		request.Headers = append(request.Headers, Header{"host", incoming.Authority()})
	}
	var writer *wasi.Writer
	response := &Response{status: 200, begin: func(status int, headers []Header) body {
		fields := make([]wasi.Header, len(headers))
		for i, header := range headers {
			fields[i] = wasi.Header{Name: strings.ToLower(header.Name), Value: header.Value}
		}
		begun, ok := incoming.Respond(ctx, status, fields)
		if !ok {
			panic(refused(status, headers))
		}
		writer = begun
		if status == 204 || status == 304 {
			return nothing{}
		}
		return watched{writer, cancel}
	}}
	answer(response, request)
	response.start()
	_ = writer.Finish(nil)
}

func refused(status int, headers []Header) string {
	message := "the host rejects the response's status " + strconv.Itoa(status) + " or a header field"
	for _, header := range headers {
		message += ", " + header.Name + ": " + header.Value
	}
	return message
}

// lazyBody requests the body from the host at the first read.
type lazyBody struct {
	ctx     context.Context
	request wasi.Request
	reader  *wasi.Reader
}

func (b *lazyBody) Read(to []byte) (int, error) {
	if b.reader == nil {
		b.reader = b.request.Body(b.ctx)
	}
	return b.reader.Read(to)
}

// watched cancels the request's context when the client has disconnected.
type watched struct {
	writer *wasi.Writer
	gone   context.CancelFunc
}

func (w watched) Write(data []byte) (int, error) {
	n, err := w.writer.Write(data)
	if err != nil {
		w.gone()
	}
	return n, err
}

func (w watched) Flush() error {
	err := w.writer.Flush()
	if err != nil {
		w.gone()
	}
	return err
}

// nothing is the body of a response without one.
type nothing struct{}

func (nothing) Write(data []byte) (int, error) { return len(data), nil }
func (nothing) Flush() error                   { return nil }

func headersOf(found []wasi.Header) []Header {
	headers := make([]Header, len(found))
	for i, header := range found {
		headers[i] = Header(header)
	}
	return headers
}

func fetch(ctx context.Context, outgoing Outgoing) (*Incoming, error) {
	scheme, rest, ok := strings.Cut(outgoing.URL, "://")
	if !ok || scheme != "http" && scheme != "https" {
		return nil, errors.New(outgoing.URL + ": not an http or https URL")
	}
	rest, _, _ = strings.Cut(rest, "#")
	authority, path := rest, "/"
	if at := strings.IndexAny(rest, "/?"); at >= 0 {
		authority, path = rest[:at], rest[at:]
	}
	if path[0] == '?' {
		path = "/" + path
	}
	request := wasi.Outgoing{
		Method: outgoing.Method, Secure: scheme == "https", Authority: authority, Path: path, Body: outgoing.Body,
	}
	for _, header := range outgoing.Headers {
		request.Headers = append(request.Headers, wasi.Header{Name: strings.ToLower(header.Name), Value: header.Value})
	}
	incoming, err := wasi.Send(ctx, request)
	if err != nil {
		return nil, err
	}
	return &Incoming{incoming.Status, headersOf(incoming.Headers), io.ReadCloser(incoming.Body)}, nil
}
