// Package guest answers HTTP requests with an ordinary http.Handler, as a service that svc hosts or as a
// program of its own:
//
//	func main() {
//		http.HandleFunc("GET /hello", hello)
//		guest.Serve(nil)
//	}
//
// Hosted, each request has an instance of the program for itself: it starts, answers and is thrown away, so
// what a request leaves in variables is gone with it. Goroutines, timers, context, os.Getenv and log work as
// everywhere; http.Client and http.DefaultTransport reach the origins that `egress` of svc.toml names.
//
// With `go run .` the same program listens on $ADDR, or on 127.0.0.1:8080.
//
// The package svc/guest/lite does the same without net/http, for small components.
package guest

import "net/http"

// Serve answers requests with the handler; nil stands for http.DefaultServeMux. Call it at the end of main.
//
// Hosted it returns at once, and main with it; requests are answered after that. In a program of its own it
// returns only when it cannot listen any more, and ends the program with a message.
func Serve(handler http.Handler) {
	if handler == nil {
		handler = http.DefaultServeMux
	}
	serve(handler)
}
