package wasi

import (
	"runtime"
	"strings"
	"syscall"
)

// added are the methods that the lane adds to Go's runtime. A runtime without them initializes the packages itself,
// cannot be started before a request exists, and always waits in its network poller.
type added interface {
	// Renew fetches the start values that two runs must not share, and returns the environment.
	Renew() []string
	// LimitMemory lets the garbage collector know the limit of the instance.
	LimitMemory()
	// MakeRoom grows the heap by about the memory of one request, before a request arrives.
	MakeRoom()
	// InitProgram initializes the packages of the program.
	InitProgram()
	// Alone reports whether only the calling goroutine can continue before the host has an event.
	Alone() bool
	// Panicking returns the value of the panic that runs the calling deferred function, or nil.
	Panicking() any
}

// withAdded returns the added methods, and whether they exist.
func withAdded() (added, bool) {
	found, known := any((*runtime.Func)(nil)).(added)
	return found, known
}

// Panicking returns the value of the panic that runs the calling deferred function, or nil if that is unknown. It
// does not recover, which would change what the runtime reports.
func Panicking() any {
	if methods, known := withAdded(); known {
		return methods.Panicking()
	}
	return nil
}

var frozen bool

// startedByRuntime exceeds the number of goroutines that the runtime starts. Each runs until it waits.
const startedByRuntime = 16

// freeze reports whether a copy of the current instance can handle a request. The host calls it after it has
// started the runtime for all later instances.
//
//go:wasmexport svc_freeze
func freeze() int32 {
	methods, known := withAdded()
	if !known {
		return 0
	}
	prepareSpans()
	methods.MakeRoom()
	for range startedByRuntime {
		runtime.Gosched()
	}
	frozen = true
	return 1
}

var (
	bytes    []byte
	pointers []*byte
)

// prepareSpans allocates an object of each size below 4 KiB, so that a request does not pay for the first one.
func prepareSpans() {
	for words := 1; words <= 512; words += max(1, words/8) {
		bytes, pointers = make([]byte, 8*words), make([]*byte, words)
	}
	bytes, pointers = nil, nil
}

// getReady prepares the program for its request.
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
	methods.LimitMemory()
	methods.InitProgram()
}
