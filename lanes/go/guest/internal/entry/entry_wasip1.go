// Package entry runs the program's main before its first request, since an instance has no other start.
package entry

import (
	"svc/guest/internal/wasi"

	_ "unsafe" // for linkname
)

//go:linkname programMain main.main
func programMain()

func init() {
	wasi.Setup = programMain
	wasi.Serve = func(wasi.Request) {
		panic("main returned without a call of guest.Serve or lite.Serve")
	}
}

// Serve handles the request with the function.
func Serve(answer func(wasi.Request)) { wasi.Serve = answer }
