"""Random operations on values, compared with a model of dictionaries."""

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.bucket.folder import FolderBucket
from engine.bucket.protocols import Bucket, StaleRevision
from tests.engine.bucket.test_folder import opened
from tests.support.examples import examples

KEYS = st.sampled_from(["a", "a/b", "a/ü", "b", "\U0010fffd"])
VALUES = st.none() | st.binary(max_size=20)


@dataclass(frozen=True)
class Cas:
    """A compare-and-set with the current revision, an earlier one, or none."""

    key: str
    value: bytes | None
    expect: Literal["right", "old", "none"]


@dataclass(frozen=True)
class Reopen:
    """The bucket is closed and opened."""


STEPS = st.lists(
    st.builds(Cas, KEYS, VALUES, st.sampled_from(["right", "right", "old", "none"])) | st.builds(Reopen),
    max_size=40,
)


@dataclass
class Model:
    """The expected content of the bucket."""

    cells: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    revision: int = 0

    async def cas(self, bucket: Bucket, step: Cas) -> None:
        now = self.cells[step.key][1] if step.key in self.cells else None
        expect = now if step.expect == "right" else None if step.expect == "none" else (now or 1) - 1
        answer = await bucket.kv.cas(step.key, step.value, expect)
        if expect != now:
            assert answer == StaleRevision(now)
            return
        assert isinstance(answer, int)
        assert answer > self.revision
        self.revision = answer
        self.cells.pop(step.key, None)
        if step.value is not None:
            self.cells[step.key] = (step.value, answer)

    async def check(self, bucket: Bucket) -> None:
        result = {cell.key: (cell.value, cell.revision) for cell in await bucket.kv.list("")}
        assert result == self.cells


@settings(deadline=None, max_examples=examples(30))
@given(STEPS)
def test_bucket_matches_model_for_random_operations(steps: list[Cas | Reopen]) -> None:
    with TemporaryDirectory() as folder:
        model = Model()
        waiting = iter([*steps, Reopen()])

        async def go_on(bucket: FolderBucket) -> bool:
            await model.check(bucket)
            for step in waiting:
                if isinstance(step, Cas):
                    await model.cas(bucket, step)
                else:
                    await model.check(bucket)
                    return True
            return False

        while opened(Path(folder) / "bucket", go_on):
            pass
