import asyncio
import base64
import json
from typing import Any

import pytest

from tests.doors.crypto.crypto_door import Data, Post, answered_once, request


@pytest.fixture
def post() -> Post:
    """Post to a new Door: `post(path, member=value)` returns the status and the document."""

    def send(path: str, **members: Any) -> tuple[int, dict[str, Any]]:
        response = asyncio.run(answered_once(request(path, members)))
        return response.status, json.loads(response.body)

    return send


@pytest.fixture
def data(post: Post) -> Data:
    """Post to a new Door; return the bytes of the answer in hex."""

    def send(path: str, **members: Any) -> str:
        status, document = post(path, **members)
        assert status == 200, document
        return base64.b64decode(document["data"]).hex()

    return send
