import pytest

from tests.lanes.rust.conftest import Crate, handler

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("mode", ["dev", "deploy"])
def test_a_hello_is_built_and_answers(crate: Crate, mode: str) -> None:
    crate.program(handler('Ok(Response::text("hello\\n").with_header("x-a", "b"))'))
    (answer,) = crate.ask(crate.build(mode), "/")
    assert (answer.status, answer.body, answer.report.outcome) == (200, b"hello\n", "ok")
    assert answer.headers[b"content-type"] == b"text/plain; charset=utf-8"
    assert answer.headers[b"x-a"] == b"b"
