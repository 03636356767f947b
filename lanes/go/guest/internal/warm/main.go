// Command warm is compiled when a toolchain is installed: what it needs is then in Go's cache.
package main

import (
	"net/http"

	"svc/guest"
)

func main() { guest.Serve(http.NotFoundHandler()) }
