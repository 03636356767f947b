// Command warm is compiled when a toolchain is installed, which fills Go's build cache.
package main

import (
	"net/http"

	"svc/guest"
)

func main() { guest.Serve(http.NotFoundHandler()) }
