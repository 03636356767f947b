from textual import events
from textual._xterm_parser import XTermParser
from textual.message import Message

from screens.terminal_app import PasteParser

SENT = "a\x1b[A\x1b[200~one\ntwo\x00 \x1b[31m ü\x1b[201~\x1b[<0;3;4Mb\x1b[200~\x1b[201~c"


def parsed(pieces: list[str]) -> list[str]:
    parser = PasteParser()
    return [repr(event) for piece in pieces for event in parser.feed(piece)]


def test_paste_split_at_any_position_is_one_event() -> None:
    expected = parsed([SENT])
    assert "Paste(text='one\\ntwo \\x1b[31m ü')" in " ".join(expected)
    for cut in range(1, len(SENT)):
        assert parsed([SENT[:cut], SENT[cut:]]) == expected, cut
    assert parsed(list(SENT)) == expected


def test_other_input_is_parsed_like_textual() -> None:
    sent = "ab\x1b[A\x1bOP\x1b[<35;3;4Mü"
    plain: list[Message] = list(XTermParser().feed(sent))
    assert [repr(event) for event in plain] == parsed([sent])


def test_paste_of_ten_megabytes_is_fast() -> None:
    parser = PasteParser()
    sent = f"\x1b[200~{'x' * 10_000_000}\x1b[201~"
    observed = [event for at in range(0, len(sent), 4096) for event in parser.feed(sent[at : at + 4096])]
    assert len(observed) == 1
    assert isinstance(observed[0], events.Paste)
    assert len(observed[0].text) == 10_000_000
