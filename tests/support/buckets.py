"""Types of the fixture `use`, which runs scenarios on a bucket."""

from collections.abc import Awaitable, Callable
from typing import Any

from engine.bucket.protocols import Bucket

Scenario = Callable[[Bucket], Awaitable[Any]]
Use = Callable[[Scenario], Any]
