"""Errors of failed builds."""

from engine.lane import BuildFailed, Diagnostic

FRAME = "    4 │ x = \x1b[31m(\x1b[0m"


def test_failed_build_with_diagnostics_formats_positions() -> None:
    diagnostics = (Diagnostic("a bracket is open", "api/main.go", 4, 5, FRAME), Diagnostic("and so on"))
    error = BuildFailed("it does not compile", diagnostics=diagnostics, output="all of it")
    assert error.output_text == "api/main.go:4:5  a bracket is open\n    4 │ x = (\nand so on"


def test_failed_build_without_diagnostics_has_tool_output() -> None:
    assert BuildFailed("no", output="\x1b[1mone\x1b[0m\ntwo\n").output_text == "one\ntwo"
    assert BuildFailed("no").output_text == ""
