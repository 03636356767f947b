// Prints whether an earlier run left something, fills the memory, and ends in the way that the path names.
package main

import (
	"fmt"
	"os"
	"unsafe"

	"svc/guest/lite"
)

// mark is an operand of instructions, so the initial memory does not contain it.
const mark uint64 = 0xa7c3f1b95e2d6804

var (
	retained [][]uint64
	runs     int
)

func main() { lite.Serve(answer) }

// inspect reads the whole linear memory up to the end of a new allocation.
func inspect() {
	fresh := make([]uint64, 1<<20)
	end := uintptr(unsafe.Pointer(&fresh[len(fresh)-1]))
	found := 0
	for at := uintptr(4096); at <= end; at += 8 {
		if *(*uint64)(unsafe.Pointer(at)) == mark {
			found++
		}
	}
	if runs++; runs > 1 || found > 0 || os.Getenv("LEFT") != "" {
		fmt.Println("left:", runs-1, "runs,", found > 1<<18, os.Getenv("LEFT"))
	}
}

func fill(words int) {
	words8 := make([]uint64, words)
	for n := range words8 {
		words8[n] = mark
	}
	retained = append(retained, words8)
}

func deeper(n int) int { return deeper(n+1) + 1 }

func answer(w *lite.Response, r *lite.Request) {
	inspect()
	fill(1 << 19)
	os.Setenv("LEFT", "set")
	switch r.Path {
	case "/twice":
		inspect()
	case "/panics":
		var none map[string]int
		none["x"] = 1
	case "/elsewhere":
		go func() { panic("in a goroutine") }()
		select {}
	case "/deadlock":
		<-make(chan int)
	case "/half":
		fmt.Fprint(w, "begun")
		w.Flush()
		panic("too late")
	case "/exits":
		os.Exit(0)
	case "/exits-late":
		fmt.Fprint(w, "begun")
		w.Flush()
		os.Exit(3)
	case "/endless":
		for {
			fmt.Fprint(w, "a part of the body")
			if w.Flush() != nil {
				return
			}
		}
	case "/recursion":
		fmt.Fprint(w, deeper(1))
	case "/memory":
		for {
			fill(1 << 17)
		}
	case "/spins":
		for {
		}
	}
	fmt.Fprint(w, "well")
}
