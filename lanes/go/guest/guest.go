// Package guest serves HTTP requests with an ordinary http.Handler, as a resource that svc hosts or as a
// standalone program:
//
//	func main() {
//		http.HandleFunc("GET /hello", hello)
//		guest.Serve(nil)
//	}
//
// Hosted, each request has its own instance of the program, which starts, responds and is discarded:
// variables do not survive a request. Goroutines, timers, context, os.Getenv and log work as
// everywhere; http.Client and http.DefaultTransport reach the origins that `egress` of svc.toml names.
//
// With `go run .` the same program listens on $ADDR, or on 127.0.0.1:8080.
//
// The package svc/guest/lite does the same without net/http, for small components.
package guest

import "net/http"

// Serve handles requests with the handler; nil stands for http.DefaultServeMux. Call it at the end of main.
//
// Hosted, it returns at once, and main with it; requests are handled after that. In a standalone program it
// returns only when it cannot listen, and exits with an error message.
func Serve(handler http.Handler) {
	if handler == nil {
		handler = http.DefaultServeMux
	}
	serve(handler)
}
