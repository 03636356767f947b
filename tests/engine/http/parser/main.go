// Parses HTTP/1.1 with the server of net/http, as parser.js does with Node's.
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// connection has the bytes of a client, which then closes its side.
type connection struct {
	io.Reader
	net.Conn
	accepted sync.Once
	once     sync.Once
	closed   chan struct{}
}

func (c *connection) Read(part []byte) (int, error)    { return c.Reader.Read(part) }
func (c *connection) Write(part []byte) (int, error)   { return len(part), nil }
func (c *connection) Close() error                     { c.once.Do(func() { close(c.closed) }); return nil }
func (c *connection) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *connection) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *connection) SetDeadline(time.Time) error      { return nil }
func (c *connection) SetReadDeadline(time.Time) error  { return nil }
func (c *connection) SetWriteDeadline(time.Time) error { return nil }

// Accept returns the connection once, and waits for its end.
func (c *connection) Accept() (net.Conn, error) {
	var first net.Conn
	c.accepted.Do(func() { first = c })
	if first != nil {
		return first, nil
	}
	<-c.closed
	return nil, http.ErrServerClosed
}

func (c *connection) Addr() net.Addr { return &net.TCPAddr{} }

func text(data []byte) string {
	runes := make([]rune, len(data))
	for n, value := range data {
		runes[n] = rune(value)
	}
	return string(runes)
}

func parse(data []byte) [][]any {
	messages := [][]any{}
	client := &connection{Reader: bytes.NewReader(data), closed: make(chan struct{})}
	server := http.Server{
		ErrorLog:                     log.New(io.Discard, "", 0),
		DisableGeneralOptionsHandler: true,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			fields := []string{}
			for name, values := range r.Header {
				for _, value := range values {
					fields = append(fields, text([]byte(name)), text([]byte(value)))
				}
			}
			messages = append(messages, []any{r.Method, text([]byte(r.RequestURI)), fields, text(body)})
			w.WriteHeader(404)
		}),
	}
	server.Serve(client)
	return messages
}

func main() {
	input, output := bufio.NewReader(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var size uint32
		if binary.Read(input, binary.BigEndian, &size) != nil {
			return
		}
		data := make([]byte, size)
		io.ReadFull(input, data)
		output.Encode(parse(data))
	}
}
