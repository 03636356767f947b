"""Keys of the Logs screen."""

from textual.binding import Binding, BindingType

LOGS_BINDINGS: list[BindingType] = [
    Binding("slash", "search", "Search", key_display="/", id="logs.search"),
    Binding("f", "filter", "Filter", id="logs.filter"),
    Binding("e", "jump(1,'error')", "Next error", id="logs.next-error"),
    Binding("E", "jump(-1,'error')", "Previous error", show=False, id="logs.previous-error"),
    Binding("w", "jump(1,'warn')", "Next warning", show=False, id="logs.next-warning"),
    Binding("W", "jump(-1,'warn')", "Previous warning", show=False, id="logs.previous-warning"),
    Binding("o", "next_of_request(1)", "Next record of request", show=False, id="logs.next-same"),
    Binding("O", "next_of_request(-1)", "Previous record of request", show=False, id="logs.previous-same"),
    Binding("n", "next_match(1)", "Next match", show=False, id="logs.next-found"),
    Binding("N", "next_match(-1)", "Previous match", show=False, id="logs.previous-found"),
    Binding("Q", "sql", "SQL", show=False, id="logs.sql"),
    Binding("r", "replay", "Replay", id="logs.replay"),
    Binding("p", "pause", "Pause", id="logs.pause"),
    Binding("s", "toggle_details", "Record details", show=False, id="logs.complete"),
    Binding("J", "scroll_details(1)", "Scroll details down", show=False, id="logs.complete-down"),
    Binding("K", "scroll_details(-1)", "Scroll details up", show=False, id="logs.complete-up"),
    Binding("t", "only_request", "Only this request", show=False, id="logs.only-request"),
    Binding("x,backspace", "drop_last_filter", "Drop last filter", show=False, id="logs.less"),
    Binding("A", "allow", "Allow what was denied", show=False, id="logs.allow"),
    Binding("u", "undo", "Undo a change of svc.toml", show=False, id="logs.undo"),
    Binding("y", "copy", "Copy", show=False, id="logs.copy"),
    Binding("X", "export", "Export", show=False, id="logs.export"),
    Binding("escape", "back", "Back", show=False, id="logs.back"),
]
