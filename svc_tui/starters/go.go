// Each request runs this program in a new WebAssembly instance, so nothing stays in memory between requests.
package main

import (
	"encoding/json"
	"net/http"
	"os"

	"svc/guest"
)

func main() {
	http.HandleFunc("GET __PREFIX__/hello", hello)
	guest.Serve(nil)
}

func hello(w http.ResponseWriter, r *http.Request) {
	guest.Log.Info("hello", "path", r.URL.Path)
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]string{"hello": "__NAME__", "request": os.Getenv("SVC_REQUEST_ID")})
}
