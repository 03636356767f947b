package wasi

import "context"

// Serve handles a request: the library's packages set it before the first request.
var Serve func(Request)

// Setup runs the program's main, once, before its first request.
var Setup func()

var methods = [...]string{"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"}

// Request is an incoming request. Its parts are read from the host on demand.
type Request struct {
	request  int32
	outparam int32
}

//go:wasmexport wasi:http/incoming-handler@0.2.4#handle
func handle(request, outparam int32) {
	getReady()
	Setup()
	Serve(Request{request, outparam})
}

// Method returns the method as sent, for example "GET".
func (r Request) Method() string {
	requestMethod(r.request, results())
	if kind := int(byteAt(0)); kind < len(methods) {
		return methods[kind]
	}
	return textAt(4)
}

// Path returns the path and the query as they were sent: "/a?b=c".
func (r Request) Path() string {
	requestPath(r.request, results())
	if byteAt(0) == 0 {
		return "/"
	}
	return textAt(4)
}

// Authority returns the host and port that the client requested, or an empty string.
func (r Request) Authority() string {
	requestAuthority(r.request, results())
	if byteAt(0) == 0 {
		return ""
	}
	return textAt(4)
}

// Secure reports whether the client uses HTTPS.
func (r Request) Secure() bool {
	requestScheme(r.request, results())
	return byteAt(0) == 1 && byteAt(4) == 1
}

// Headers returns the header fields in the order of the request.
func (r Request) Headers() []Header { return takeFields(requestHeaders(r.request)) }

// Body returns the body. Call it once.
func (r Request) Body(ctx context.Context) *Reader {
	requestConsume(r.request, results())
	return newReader(ctx, int32At(4), nil)
}

// Abort returns an error instead of a response: the host closes the connection.
func (r Request) Abort() { outparamSet(r.outparam, 1, connectionTerminated, 0, 0, 0, 0, 0, 0) }

// Respond sends the head of the response and returns the writer of its body; ok is false if the host rejects
// a header field.
func (r Request) Respond(ctx context.Context, status int, headers []Header) (writer *Writer, ok bool) {
	fields, ok := newFields(headers)
	if !ok {
		return nil, false
	}
	response := responseNew(fields)
	if status != 200 && responseSetStatus(response, int32(status)) != 0 {
		return nil, false
	}
	responseBody(response, results())
	body := int32At(4)
	outparamSet(r.outparam, 0, response, 0, 0, 0, 0, 0, 0)
	return newWriter(ctx, body), true
}
