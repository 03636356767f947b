import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.screens.widgets.virtual_lists import MILLION, Case, Numbers, Shown
from tests.support.screens import OpenApp


@pytest.fixture
def drive(open_app: OpenApp) -> Callable[..., None]:
    """Run a test on a list in a terminal of 60x12."""

    def run(case: Case, count: int = MILLION, size: tuple[int, int] = (60, 12), **wishes: Any) -> None:
        async def main() -> None:
            source = Numbers(count)
            app = Shown(source, **wishes)
            async with open_app(app, size) as pilot:
                await case(pilot, source, app.rows)

        asyncio.run(main())

    return run
