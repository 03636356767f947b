"""Bodies of HTML forms (RFC 7578)."""

from typing import Any

_PIECE = 1 << 16


def multipart(*files: tuple[str, str, bytes], **values: str) -> dict[str, Any]:
    """Return fields and body, in pieces, of a form with files (name, filename, content) and values."""
    parts = [
        b'--limit\r\ncontent-disposition: form-data; name="%s"; filename="%s"\r\n\r\n%s\r\n'
        % (name.encode(), filename.encode(), content)
        for name, filename, content in files
    ]
    parts += [
        b'--limit\r\ncontent-disposition: form-data; name="%s"\r\n\r\n%s\r\n'
        % (name.encode(), value.encode())
        for name, value in values.items()
    ]
    body = b"".join([*parts, b"--limit--\r\n"])
    return {
        "fields": [("content-type", "multipart/form-data; boundary=limit")],
        "body": [body[at : at + _PIECE] for at in range(0, len(body), _PIECE)],
    }
