//go:build !wasip1

package guest

import (
	"log"
	"net/http"
	"os"
)

func serve(handler http.Handler) {
	address := os.Getenv("ADDR")
	if address == "" {
		address = "127.0.0.1:8080"
	}
	log.Printf("listening on http://%s/", address)
	log.Fatal(http.ListenAndServe(address, handler))
}
