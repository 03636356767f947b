package wasi

import (
	"context"
	"io"
)

// Outgoing is a request to another server.
type Outgoing struct {
	Method    string
	Secure    bool
	Authority string
	Path      string
	Headers   []Header
	Body      io.Reader
	// Trailers returns the trailers when the body was read to its end; nil stands for none.
	Trailers func() []Header
}

// Incoming is another server's response.
type Incoming struct {
	Status  int
	Headers []Header
	Body    *Reader
}

// An Error is one of wasi:http's error codes, as "connection-refused".
type Error string

func (e Error) Error() string {
	if e == "HTTP-request-denied" {
		return "HTTP-request-denied: the origin is not in `egress` of svc.toml"
	}
	return string(e)
}

var errorCodes = [...]Error{
	"DNS-timeout", "DNS-error", "destination-not-found", "destination-unavailable", "destination-IP-prohibited",
	"destination-IP-unroutable", "connection-refused", "connection-terminated", "connection-timeout",
	"connection-read-timeout", "connection-write-timeout", "connection-limit-reached", "TLS-protocol-error",
	"TLS-certificate-error", "TLS-alert-received", "HTTP-request-denied", "HTTP-request-length-required",
	"HTTP-request-body-size", "HTTP-request-method-invalid", "HTTP-request-URI-invalid", "HTTP-request-URI-too-long",
	"HTTP-request-header-section-size", "HTTP-request-header-size", "HTTP-request-trailer-section-size",
	"HTTP-request-trailer-size", "HTTP-response-incomplete", "HTTP-response-header-section-size",
	"HTTP-response-header-size", "HTTP-response-body-size", "HTTP-response-trailer-section-size",
	"HTTP-response-trailer-size", "HTTP-response-transfer-coding", "HTTP-response-content-coding",
	"HTTP-response-timeout", "HTTP-upgrade-failed", "HTTP-protocol-error", "loop-detected", "configuration-error",
	"internal-error",
}

// connectionTerminated is the number of an error code.
const connectionTerminated = 7

func errorCode(offset uintptr) error {
	if code := int(byteAt(offset)); code < len(errorCodes) {
		return errorCodes[code]
	}
	return Error("unknown error")
}

// Send sends a request and returns the response after its head was received. The body is sent at the same time, and
// closed in any case if it is an io.Closer. The response is valid until its body is closed.
func Send(ctx context.Context, request Outgoing) (*Incoming, error) {
	future, body, err := begin(ctx, request)
	if err != nil {
		closeBody(request.Body)
		return nil, err
	}
	defer futureDrop(future)
	if request.Body == nil {
		outgoingBodyFinish(body, 0, 0, results())
	} else {
		// The request may be rejected, or answered, before its body is read.
		incoming, err := take(ctx, future)
		if err != nil {
			outgoingBodyDrop(body)
			closeBody(request.Body)
			return nil, err
		}
		go sendBody(newWriter(ctx, body), request)
		if incoming != nil {
			return incoming, nil
		}
	}
	if err := wait(ctx, futureSubscribe(future)); err != nil {
		return nil, err
	}
	incoming, err := take(ctx, future)
	if incoming == nil && err == nil {
		err = Error("no response")
	}
	return incoming, err
}

// begin sends the head; it returns the future response and the body to write.
func begin(ctx context.Context, request Outgoing) (future, body int32, err error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	handle, err := newOutgoing(request)
	if err != nil {
		return 0, 0, err
	}
	outgoingBody(handle, results())
	body = int32At(4)
	outgoingHandle(handle, 0, 0, results())
	if byteAt(0) != 0 {
		err := errorCode(8)
		outgoingBodyDrop(body)
		return 0, 0, err
	}
	return int32At(8), body, nil
}

func newOutgoing(request Outgoing) (int32, error) {
	fields, ok := newFields(request.Headers)
	if !ok {
		return 0, Error("a header field is not allowed or not well-formed")
	}
	handle := outgoingNew(fields)
	kind, scheme := int32(len(methods)), int32(0)
	for i, method := range methods {
		if method == request.Method {
			kind = int32(i)
		}
	}
	if request.Secure {
		scheme = 1
	}
	if outgoingSetMethod(handle, kind, request.Method) != 0 {
		return 0, Error("HTTP-request-method-invalid")
	}
	outgoingSetScheme(handle, 1, scheme, "")
	if outgoingSetAuthority(handle, 1, request.Authority) != 0 || outgoingSetPath(handle, 1, request.Path) != 0 {
		return 0, Error("HTTP-request-URI-invalid")
	}
	return handle, nil
}

func sendBody(writer *Writer, request Outgoing) {
	defer closeBody(request.Body)
	if _, err := io.Copy(writer, request.Body); err != nil {
		writer.Abort()
		return
	}
	if request.Trailers == nil {
		writer.Finish(nil)
	} else {
		writer.Finish(request.Trailers())
	}
}

func closeBody(body io.Reader) {
	if closer, ok := body.(io.Closer); ok {
		_ = closer.Close()
	}
}

// take returns the response or the error of a request, and neither while there is none. It can be taken once.
func take(ctx context.Context, future int32) (*Incoming, error) {
	// option<result<result<incoming-response, error-code>>>
	futureGet(future, results())
	if byteAt(0) == 0 {
		return nil, nil
	}
	if byteAt(8) != 0 {
		return nil, Error("no response")
	}
	if byteAt(16) != 0 {
		return nil, errorCode(24)
	}
	response := int32At(24)
	status := int(incomingStatus(response))
	headers := takeFields(incomingHeaders(response))
	incomingConsume(response, results())
	body := newReader(ctx, int32At(4), func() { incomingDrop(response) })
	return &Incoming{status, headers, body}, nil
}
