"""Key bindings of the Board."""

from textual.binding import Binding, BindingType

BOARD_BINDINGS: list[BindingType] = [
    Binding("c", "connect", "Connect", id="board.connect"),
    Binding("enter", "join", "Connect to", id="board.join"),
    Binding("enter", "open", "Open", id="board.open"),
    Binding("e", "pattern", "Edit", id="board.pattern"),
    Binding("e", "edit_source", "Edit source", id="board.edit-source"),
    Binding("d", "remove", "Remove", id="board.remove"),
    Binding("ctrl+s", "write", "Save mounts", id="board.write"),
    Binding("u", "undo", "Undo", id="board.undo"),
    Binding("U", "redo", "Redo", id="board.redo"),
    Binding("u", "nothing('undo')", "Undo", show=False, id="board.undo"),
    Binding("U", "nothing('redo')", "Redo", show=False, id="board.redo"),
    Binding("escape", "back", "Back", id="board.back"),
    Binding("D", "deploy", "Deploy", id="board.deploy"),
    Binding("H", "history", "History", show=False, id="board.history"),
    Binding("n", "nodes", "Nodes", id="board.nodes"),
    Binding("o", "browse", "Open in browser", show=False, id="board.browse"),
    Binding("y", "copy", "Copy address", show=False, id="board.copy"),
    Binding("L", "logs", "Logs", show=False, id="board.logs"),
    Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False, id="board.page-down"),
    Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False, id="board.page-up"),
]
