package wasi

import (
	"runtime"
	"strings"
	"syscall"
)

// ahead is what the lane adds to Go's runtime, so that it can start before there is a request. A runtime without
// it has initialized the packages of the program by itself.
type ahead interface {
	// Renew fetches what the runtime got when it started and two runs must not share, and returns the environment.
	Renew() []string
	// InitProgram initializes the packages of the program.
	InitProgram()
}

var frozen bool

// freeze tells whether a copy of the instance as it is now can answer a request. The host calls it when it has
// started the runtime for all instances to come.
//
//go:wasmexport svc_freeze
func freeze() int32 {
	if _, known := any((*runtime.Func)(nil)).(ahead); !known {
		return 0
	}
	frozen = true
	return 1
}

// getReady has the program ready for its request.
func getReady() {
	runtime, known := any((*runtime.Func)(nil)).(ahead)
	if !known {
		return
	}
	if frozen {
		for _, variable := range runtime.Renew() {
			name, value, _ := strings.Cut(variable, "=")
			_ = syscall.Setenv(name, value)
		}
	}
	runtime.InitProgram()
}
