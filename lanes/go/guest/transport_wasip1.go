package guest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"svc/guest/internal/wasi"
)

// The lane compiles an http.Transport with this method; if it cannot, only the default transport is replaced.
func init() {
	if every, ok := http.DefaultTransport.(interface {
		HandToHost(func(request *http.Request, plain bool) (*http.Response, error))
	}); ok {
		every.HandToHost(roundTrip)
	} else {
		http.DefaultTransport = transport{}
	}
}

// userAgent is net/http's default: some servers reject requests without one.
const userAgent = "Go-http-client/1.1"

type transport struct{}

func (transport) RoundTrip(request *http.Request) (*http.Response, error) {
	return roundTrip(request, false)
}

// roundTrip sends the requests of http.Client through the host. Unless plain, gzip responses are decompressed.
func roundTrip(request *http.Request, plain bool) (*http.Response, error) {
	if request.URL.Host == "" {
		return nil, fmt.Errorf("%s: no host in the URL", request.URL)
	}
	outgoing := wasi.Outgoing{
		Method:    request.Method,
		Secure:    request.URL.Scheme == "https",
		Authority: request.URL.Host,
		Path:      request.URL.RequestURI(),
		Headers:   outgoingHeaders(request),
		Trailers:  func() []wasi.Header { return trailerHeaders(request.Trailer) },
	}
	unpacks := !plain && asksForGzip(request)
	if unpacks {
		outgoing.Headers = append(outgoing.Headers, wasi.Header{Name: "accept-encoding", Value: "gzip"})
	}
	if outgoing.Method == "" {
		outgoing.Method = http.MethodGet
	}
	if request.Body != nil && request.Body != http.NoBody {
		outgoing.Body = request.Body
	}
	incoming, err := wasi.Send(request.Context(), outgoing)
	if err != nil {
		return nil, err
	}
	response := &http.Response{
		Status:        strconv.Itoa(incoming.Status) + " " + http.StatusText(incoming.Status),
		StatusCode:    incoming.Status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        make(http.Header),
		Body:          incoming.Body,
		ContentLength: -1,
		Request:       request,
	}
	for _, header := range incoming.Headers {
		key := headerKey(header.Name)
		response.Header[key] = append(response.Header[key], header.Value)
	}
	if size, err := strconv.ParseInt(response.Header.Get("Content-Length"), 10, 64); err == nil {
		response.ContentLength = size
	}
	if unpacks {
		unpack(response)
	}
	return response, nil
}

func outgoingHeaders(request *http.Request) []wasi.Header {
	headers := make([]wasi.Header, 0, len(request.Header)+2)
	for name, values := range request.Header {
		if connectionFields[name] || name == "Host" || name == "Content-Length" {
			continue
		}
		for _, value := range values {
			if name == "User-Agent" && value == "" {
				continue // says that there should be none
			}
			headers = append(headers, wasi.Header{Name: strings.ToLower(name), Value: value})
		}
	}
	if _, named := request.Header["User-Agent"]; !named {
		headers = append(headers, wasi.Header{Name: "user-agent", Value: userAgent})
	}
	sized := request.ContentLength > 0
	if request.Body == nil || request.Body == http.NoBody {
		sized = request.Method == http.MethodPost || request.Method == http.MethodPut || request.Method == http.MethodPatch
	}
	if sized {
		headers = append(headers, wasi.Header{Name: "content-length", Value: strconv.FormatInt(request.ContentLength, 10)})
	}
	return headers
}
