// Each request runs this program from main on, in a new WebAssembly instance: nothing in memory survives.
package main

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"os"
	"strconv"
	"time"

	"svc/guest"
)

//go:embed page.html
var page []byte

func main() {
	http.HandleFunc("GET /{$}", front)
	http.HandleFunc("GET /hello", hello)
	http.HandleFunc("GET /primes", primes)
	guest.Serve(nil)
}

func front(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Write(page)
}

// The name to greet is in the query. The environment has the variables of svc.toml and those of svc.
func hello(w http.ResponseWriter, r *http.Request) {
	name := r.FormValue("name")
	if name == "" {
		name = "world"
	}
	guest.Log.Info("greeted", "name", name)
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]string{"hello": name, "request": os.Getenv("SVC_REQUEST_ID")})
}

// A stream of events, each sent at once. Send fails if the client has disconnected.
func primes(w http.ResponseWriter, r *http.Request) {
	stream := guest.NewEvents(w)
	numbers := make(chan int)
	go count(numbers)
	for range 99 {
		prime := <-numbers
		if stream.Send(guest.Event{ID: strconv.Itoa(prime), Data: prime}) != nil {
			return
		}
		sieved := make(chan int)
		go sieve(numbers, sieved, prime)
		numbers = sieved
		time.Sleep(60 * time.Millisecond)
	}
	stream.Send(guest.Event{Name: "done"})
}

// The sieve of Eratosthenes, as goroutines: one counts, and one for each prime filters its multiples.
func count(out chan<- int) {
	for n := 2; ; n++ {
		out <- n
	}
}

func sieve(in <-chan int, out chan<- int, prime int) {
	for n := range in {
		if n%prime != 0 {
			out <- n
		}
	}
}
