//go:build !wasip1

package guest

import (
	"log"
	"net"
	"net/http"
	"os"
)

func serve(handler http.Handler) {
	address := os.Getenv("ADDR")
	if address == "" {
		address = "127.0.0.1:8080"
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on http://%s/", listener.Addr())
	log.Fatal(http.Serve(listener, handler))
}
