"""Pre-initialized Go components."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.artifact import ComponentArtifact
from engine.wasm.binary.memory_probe import PAGE_BYTES
from engine.wasm.binary.preinit.run import preinitialize
from engine.wasm.binary.reader import read_outline
from engine.wasm_binary import BinaryReader, read_sections
from tests.lanes.go.conftest import Module, Reply

pytestmark = pytest.mark.slow
MEMORY_SECTION = 5

ENVIRONMENT = {"GREETING": "hallo", "GOGC": "37", "GOMEMLIMIT": "48MiB", "GODEBUG": "panicnil=1", "EMPTY": ""}
PROGRAM = """\
package main

import (
	crand "crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"math/rand"
	randv2 "math/rand/v2"
	"net/http"
	"os"
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

func main() { guest.Serve(http.HandlerFunc(answer)) }
"""
BELOW = """\
package below

import "os"

var order = " below " + os.Getenv("GREETING")

func Order() string { return order }
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Module:
    module = Module((tmp_path_factory.mktemp("ahead") / "project ü").resolve(), cache)
    module.program(PROGRAM)
    module.write("below/below.go", BELOW)
    return module


@pytest.fixture(scope="module")
def artifact(program: Module) -> ComponentArtifact:
    return program.build("deploy")


@pytest.fixture(scope="module")
def deployed(program: Module, artifact: ComponentArtifact) -> list[Reply]:
    return program.ask(artifact, *(["/"] * 4), environment=ENVIRONMENT, fast=False)


def seen(replies: list[Reply], name: str) -> Iterator[Any]:
    return (json.loads(each.text)[name] for each in replies)


@pytest.fixture(scope="module")
def initialized(artifact: ComponentArtifact) -> bytes:
    return preinitialize(artifact.component.read_bytes())


def test_go_component_can_be_preinitialized(artifact: ComponentArtifact, initialized: bytes) -> None:
    assert initialized != artifact.component.read_bytes()


def test_randomness_differs_between_runs(deployed: list[Reply]) -> None:
    for source in zip(*seen(deployed, "random"), strict=True):
        assert len(set(source)) == len(deployed)
    assert len(set(seen(deployed, "order"))) > 1


def test_package_initialization_sees_the_environment(deployed: list[Reply]) -> None:
    assert set(seen(deployed, "greeting")) == {"hallo below hallo"}
    assert list(seen(deployed, "events")) == [["init of hallo"]] * len(deployed)
    variables = dict(each.split("=", 1) for each in next(seen(deployed, "environment")))
    assert variables.items() > ENVIRONMENT.items()
    assert next(seen(deployed, "arguments")) == ["app"]


def test_runtime_settings_come_from_the_environment(deployed: list[Reply]) -> None:
    assert set(seen(deployed, "gogc")) == {37}
    assert set(seen(deployed, "limit")) == {48 << 20}
    assert set(seen(deployed, "panic")) == {"<nil>"}


def test_clocks_and_goroutines_work_in_each_run(deployed: list[Reply]) -> None:
    assert all(abs(unix - time.time()) < 600 for unix in seen(deployed, "unix"))
    assert all(0.001 <= since < 60 for since in seen(deployed, "since"))
    assert set(seen(deployed, "ticks")) == {1}


def test_dev_build_answers_alike(program: Module, artifact: ComponentArtifact, deployed: list[Reply]) -> None:
    [reply] = program.ask(artifact, "/", environment=ENVIRONMENT)
    varying = {"random", "order", "unix", "since"}
    result = [
        {k: v for k, v in json.loads(each.text).items() if k not in varying} for each in (reply, deployed[0])
    ]
    assert result[0] == result[1]


def initial_pages(component: bytes) -> int:
    """Return the initial size of the memory of the program's module, in pages."""
    modules = [component[each.start : each.end] for each in read_outline(component).modules()]
    program = next(each for each in modules if b"svc_freeze" in each)
    memories = BinaryReader(dict(read_sections(program))[MEMORY_SECTION])
    _count, _flags = memories.uleb(), memories.uleb()
    return memories.uleb()


def test_short_request_needs_no_more_memory(initialized: bytes, deployed: list[Reply]) -> None:
    assert {reply.report.peak_memory for reply in deployed} == {initial_pages(initialized) * PAGE_BYTES}
