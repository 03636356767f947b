"""One program for tests of deployed components: compiling its machine code takes 10 CPU seconds."""

from pathlib import Path

import pytest

from engine.artifact import ComponentArtifact
from tests.lanes.go.module import Module

PROGRAM = """\
package main

import (
	crand "crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"io"
	"math/rand"
	randv2 "math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"example.com/api/below"
	"svc/guest"
)

var greeting = os.Getenv("GREETING") + below.Order()
var began = time.Now()
var events []string
var ticks atomic.Int64

func init() {
	events = append(events, "init of "+os.Getenv("GREETING"))
	go func() { ticks.Add(1) }()
}

func caught() (value any) {
	defer func() { value = fmt.Sprint(recover()) }()
	panic(nil)
}

func answer(w http.ResponseWriter, r *http.Request) {
	key := make([]byte, 16)
	crand.Read(key)
	order := ""
	for name := range map[string]int{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1, "g": 1, "h": 1, "i": 1} {
		order += name
	}
	var hash maphash.Hash
	hash.WriteString("x")
	time.Sleep(time.Millisecond)
	json.NewEncoder(w).Encode(map[string]any{
		"random": []any{hex.EncodeToString(key), rand.Int63(), randv2.Uint64(), fmt.Sprint(hash.Sum64())},
		"order": order, "greeting": greeting, "events": events, "ticks": ticks.Load(),
		"environment": os.Environ(), "arguments": os.Args,
		"gogc": debug.SetGCPercent(100), "limit": debug.SetMemoryLimit(-1),
		"panic": caught(), "unix": began.Unix(), "since": time.Since(began).Seconds(),
	})
}

func upload(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/timer" {
		defer time.AfterFunc(time.Hour, func() {}).Stop()
	}
	for ticks.Load() == 0 { // Only this goroutine waits.
		runtime.Gosched()
	}
	sent, err := io.ReadAll(r.Body)
	fmt.Fprint(w, len(sent), err)
}

func main() {
	http.HandleFunc("/", answer)
	http.HandleFunc("/upload", upload)
	http.HandleFunc("/timer", upload)
	guest.Serve(nil)
}
"""
BELOW = """\
package below

import "os"

var order = " below " + os.Getenv("GREETING")

func Order() string { return order }
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Module:
    module = Module((tmp_path_factory.mktemp("deployed") / "project ü").resolve(), cache)
    module.program(PROGRAM)
    module.write("below/below.go", BELOW)
    return module


@pytest.fixture(scope="module")
def artifact(program: Module) -> ComponentArtifact:
    return program.build("deploy")
