//go:build !wasip1

package lite

import (
	"context"
	"log"
	"net"
	"net/http"
	"os"
)

func serve(answer func(*Response, *Request)) {
	address := os.Getenv("ADDR")
	if address == "" {
		address = "127.0.0.1:8080"
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on http://%s/", listener.Addr())
	log.Fatal(http.Serve(listener, handler(answer)))
}

func handler(answer func(*Response, *Request)) http.Handler {
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		controller := http.NewResponseController(writer)
		_ = controller.EnableFullDuplex()
		response := &Response{status: http.StatusOK, begin: func(status int, headers []Header) body {
			for _, header := range headers {
				writer.Header().Add(header.Name, header.Value)
			}
			writer.WriteHeader(status)
			return flusher{writer, controller}
		}}
		answer(response, &Request{
			Context: request.Context(),
			Method:  request.Method,
			Path:    request.URL.EscapedPath(),
			Query:   request.URL.RawQuery,
			Headers: append(pairs(request.Header), Header{"Host", request.Host}),
			Body:    request.Body,
		})
		response.start()
	})
}

type flusher struct {
	http.ResponseWriter
	controller *http.ResponseController
}

func (f flusher) Flush() error { return f.controller.Flush() }

func pairs(header http.Header) []Header {
	var headers []Header
	for name, values := range header {
		for _, value := range values {
			headers = append(headers, Header{name, value})
		}
	}
	return headers
}

func fetch(ctx context.Context, outgoing Outgoing) (*Incoming, error) {
	request, err := http.NewRequestWithContext(ctx, outgoing.Method, outgoing.URL, outgoing.Body)
	if err != nil {
		return nil, err
	}
	for _, header := range outgoing.Headers {
		request.Header.Add(header.Name, header.Value)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	return &Incoming{response.StatusCode, pairs(response.Header), response.Body}, nil
}
