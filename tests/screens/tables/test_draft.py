from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from screens.tables.draft import Draft, Key

KEYS: list[Key] = [(1,), (2,), ("a", 3)]
COLUMNS = ["name", "age"]
STORED: dict[Key, dict[str, Any]] = {key: {"name": f"n{key}", "age": 1} for key in KEYS}
values = st.sampled_from([None, 0, 1, 1.0, True, "", "x", "n(1,)"])


def same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


class Model:
    """Reference model: stored rows and edited rows."""

    def __init__(self) -> None:
        self.edited: dict[Key, dict[str, Any] | None] = {key: dict(row) for key, row in STORED.items()}
        self.new: list[tuple[int, dict[str, Any]]] = []

    def copy(self) -> "Model":
        other = Model()
        other.edited = {key: dict(row) if row is not None else None for key, row in self.edited.items()}
        other.new = [(number, dict(cells)) for number, cells in self.new]
        return other

    def changes(self) -> dict[Key | int, Any]:
        result: dict[Key | int, Any] = {}
        for key, row in self.edited.items():
            if row is None:
                result[key] = "deleted"
                continue
            cells = {name: cell for name, cell in row.items() if not same(cell, STORED[key][name])}
            if cells:
                result[key] = cells
        return result | dict(self.new)


class Drafting(RuleBasedStateMachine):
    """Compare a draft with the reference model after each step."""

    added = Bundle[int]("added")

    def __init__(self) -> None:
        super().__init__()
        self.draft = Draft()
        self.model = Model()
        self.before: list[Model] = []
        self.after: list[Model] = []

    def step(self) -> Model:
        self.before.append(self.model)
        self.after = []
        self.model = self.model.copy()
        return self.model

    @rule(key=st.sampled_from(KEYS), column=st.sampled_from(COLUMNS), value=values)
    def set(self, key: Key, column: str, value: Any) -> None:
        if self.model.edited[key] is None:
            return  # the grid offers no cells of a deleted row
        row = self.step().edited[key]
        assert row is not None
        row[column] = value
        self.draft.write({key: {column: (STORED[key][column], value)}})

    @rule(keys=st.lists(st.sampled_from(KEYS), unique=True, min_size=1))
    def delete(self, keys: list[Key]) -> None:
        model = self.step()
        back = all(model.edited[key] is None for key in keys)
        for key in keys:
            model.edited[key] = dict(STORED[key]) if back else None
        self.draft.delete({key: STORED[key] for key in keys})

    @rule(
        target=added, rows=st.lists(st.dictionaries(st.sampled_from(COLUMNS), values), min_size=1, max_size=3)
    )
    def add(self, rows: list[dict[str, Any]]) -> int:
        model = self.step()
        self.draft.write(rows=rows)
        numbers = [row.number for row in self.draft.new[: len(rows)]]
        model.new += zip(numbers, (dict(row) for row in rows), strict=True)
        return numbers[0]

    @rule(number=added, column=st.sampled_from(COLUMNS), value=values, clear=st.booleans())
    def set_new(self, number: int, column: str, value: Any, clear: bool) -> None:
        for which, cells in self.step().new:
            if which == number and clear:
                cells.pop(column, None)
            elif which == number:
                cells[column] = value
        if clear:
            self.draft.clear_new(number, column)
        else:
            self.draft.write(new={number: {column: value}})

    @rule(number=added)
    def drop_new(self, number: int) -> None:
        model = self.step()
        model.new = [each for each in model.new if each[0] != number]
        self.draft.drop_new([number])

    @rule()
    def undo(self) -> None:
        assert self.draft.undo() == bool(self.before)
        if self.before:
            self.after.append(self.model)
            self.model = self.before.pop()

    @rule()
    def redo(self) -> None:
        assert self.draft.redo() == bool(self.after)
        if self.after:
            self.before.append(self.model)
            self.model = self.after.pop()

    @rule(choice=st.data())
    def apply(self, choice: st.DataObject) -> None:
        waits = list(self.model.changes())
        left = choice.draw(st.lists(st.sampled_from(waits), unique=True)) if waits else []
        stored = Model()
        stored.edited = {
            key: row if key in left else dict(STORED[key]) for key, row in self.model.edited.items()
        }
        stored.new = [each for each in self.model.new if each[0] in left]
        self.model, self.before, self.after = stored, [], []
        self.draft.applied(left)

    @invariant()
    def changes_match_model(self) -> None:
        expected = self.model.changes()
        changes = self.draft.changes()
        assert {which for which, _ in changes} == set(expected)
        assert len(self.draft) == len(changes) == len(expected)
        for which, change in changes:
            if "insert" in change:
                assert change["insert"] == expected[which]
                continue
            assert not isinstance(which, int)
            if "delete" in change:
                assert expected[which] == "deleted"
                assert change["delete"] == {"key": list(which), "expected": STORED[which]}
            else:
                cells = expected[which]
                was = {name: STORED[which][name] for name in cells}
                assert change["update"] == {"key": list(which), "expected": was, "set": cells}


TestDrafting = Drafting.TestCase
TestDrafting.settings = settings(deadline=None, max_examples=60, stateful_step_count=25)


def test_settle_mine_preserves_edit_with_current_row_as_expected() -> None:
    draft = Draft()
    draft.write({(1,): {"name": ("Ann", "Anna")}})
    draft.write({(2,): {"name": ("Bob", "Rob")}})
    draft.settle({(1,): {"name": "Anne", "age": 4}, (2,): None}, mine=True)
    assert draft.changes() == [
        ((1,), {"update": {"key": [1], "expected": {"name": "Anne"}, "set": {"name": "Anna"}}})
    ]


def test_settle_theirs_drops_edit_until_undo() -> None:
    draft = Draft()
    draft.write({(1,): {"name": ("Ann", "Anna")}})
    draft.settle({(1,): {"name": "Anne"}}, mine=False)
    assert draft.changes() == []
    assert draft.undo() and len(draft) == 1


def test_truncated_cell_is_expected_in_update() -> None:
    draft, cut = Draft(), {"size": 5000, "text": "abc"}
    draft.write({(1,): {"text": (cut, "short")}})
    assert draft.changes() == [
        ((1,), {"update": {"key": [1], "expected": {"text": cut}, "set": {"text": "short"}}})
    ]
