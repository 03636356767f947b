package wasi

import (
	"runtime"
	"strings"
	"syscall"
)

// added is what the lane adds to Go's runtime. One without it has initialized the packages of the program by itself,
// cannot be started before there is a request, and always waits in its network poller.
type added interface {
	// Renew fetches what the runtime got when it started and two runs must not share, and returns the environment.
	Renew() []string
	// MakeRoom has the heap grow now, by about as much as a request takes, and not while one waits for it.
	MakeRoom()
	// InitProgram initializes the packages of the program.
	InitProgram()
	// Alone tells whether no goroutine but the calling one can go on before the host has something new.
	Alone() bool
	// Panicking returns the value of the panic that runs the calling deferred function, or nil.
	Panicking() any
}

// withAdded returns what is added, and whether it is there.
func withAdded() (added, bool) {
	found, known := any((*runtime.Func)(nil)).(added)
	return found, known
}

// Panicking returns the value of the panic that runs the calling deferred function, or nil where that is not known. It
// does not recover, which would change what the runtime reports.
func Panicking() any {
	if methods, known := withAdded(); known {
		return methods.Panicking()
	}
	return nil
}

var frozen bool

// startedByRuntime is more goroutines than the runtime starts for itself. Each runs until it waits.
const startedByRuntime = 16

// freeze tells whether a copy of the instance as it is now can answer a request. The host calls it when it has
// started the runtime for all instances to come.
//
//go:wasmexport svc_freeze
func freeze() int32 {
	methods, known := withAdded()
	if !known {
		return 0
	}
	methods.MakeRoom()
	for range startedByRuntime {
		runtime.Gosched()
	}
	frozen = true
	return 1
}

// getReady has the program ready for its request.
func getReady() {
	methods, known := withAdded()
	if !known {
		return
	}
	if frozen {
		for _, variable := range methods.Renew() {
			name, value, _ := strings.Cut(variable, "=")
			_ = syscall.Setenv(name, value)
		}
	}
	methods.InitProgram()
}
