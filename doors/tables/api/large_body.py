"""Requests in JSON that may be larger than others: read piece by piece, checked on a thread."""

import asyncio
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from quart import request
from quart_schema import RequestSchemaValidationError

from engine.errors import SvcError

_Form = TypeVar("_Form", bound=BaseModel)


async def read_large(form: type[_Form], most: int, what: str, hint: str) -> _Form:
    """Return the body of the request. Raises `SvcError` where it has more than `most` bytes."""
    text = bytearray()
    async for piece in request.body:
        text += piece
        if len(text) > most:
            raise SvcError(f"{what} have more than {most >> 20} MiB", hint, code="body-too-large")
    try:
        return await asyncio.to_thread(form.model_validate_json, bytes(text))
    except ValidationError as error:
        raise RequestSchemaValidationError(error) from error
