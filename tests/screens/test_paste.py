from textual import events
from textual._xterm_parser import XTermParser
from textual.message import Message

from screens.paste import PasteParser

SENT = "a\x1b[A\x1b[200~one\ntwo\x00 \x1b[31m ü\x1b[201~\x1b[<0;3;4Mb\x1b[200~\x1b[201~c"


def told(pieces: list[str]) -> list[str]:
    parser = PasteParser()
    return [repr(event) for piece in pieces for event in parser.feed(piece)]


def test_wherever_a_paste_is_cut_it_is_the_same() -> None:
    whole = told([SENT])
    assert "Paste(text='one\\ntwo \\x1b[31m ü')" in " ".join(whole)
    for cut in range(1, len(SENT)):
        assert told([SENT[:cut], SENT[cut:]]) == whole, cut
    assert told(list(SENT)) == whole


def test_what_is_no_paste_is_as_the_toolkit_has_it() -> None:
    sent = "ab\x1b[A\x1bOP\x1b[<35;3;4Mü"
    plain: list[Message] = list(XTermParser().feed(sent))
    assert [repr(event) for event in plain] == told([sent])


def test_ten_megabytes_are_one_event_at_once() -> None:
    parser = PasteParser()
    sent = f"\x1b[200~{'x' * 10_000_000}\x1b[201~"
    seen = [event for at in range(0, len(sent), 4096) for event in parser.feed(sent[at : at + 4096])]
    assert len(seen) == 1
    assert isinstance(seen[0], events.Paste)
    assert len(seen[0].text) == 10_000_000
