// Parses HTTP/1.1 with the server of net/http, as parser.js does with Node's.
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"os"
)

var messages [][]any

// text returns bytes as the characters of Latin-1.
func text(data string) string {
	runes := []rune{}
	for _, value := range []byte(data) {
		runes = append(runes, rune(value))
	}
	return string(runes)
}

func answer(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		fields := []string{}
		for name, values := range r.Header {
			for _, value := range values {
				fields = append(fields, text(name), text(value))
			}
		}
		messages = append(messages, []any{r.Method, text(r.RequestURI), fields, text(string(body))})
	}
	w.WriteHeader(404)
}

func main() {
	listener, _ := net.Listen("tcp", "127.0.0.1:0")
	server := http.Server{
		Handler: http.HandlerFunc(answer), ErrorLog: log.New(io.Discard, "", 0), DisableGeneralOptionsHandler: true,
	}
	go server.Serve(listener)
	input, output := bufio.NewReader(os.Stdin), json.NewEncoder(os.Stdout)
	for size := uint32(0); binary.Read(input, binary.BigEndian, &size) == nil; {
		client, _ := net.Dial("tcp", listener.Addr().String())
		messages = [][]any{}
		io.CopyN(client, input, int64(size))
		client.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, client)
		client.Close()
		output.Encode(messages)
	}
}
