"""Media types of served files by file name, and whether compression can help.

The table is fixed: equal files make equal images on every machine, whatever its own MIME tables contain.
"""

DEFAULT = "application/octet-stream"

_TYPES = {
    ".aac": "audio/aac", ".apng": "image/apng", ".atom": "application/atom+xml", ".avif": "image/avif",
    ".bin": DEFAULT, ".bmp": "image/bmp", ".br": DEFAULT, ".bz2": "application/x-bzip2",
    ".cjs": "text/javascript", ".css": "text/css", ".csv": "text/csv",
    ".eot": "application/vnd.ms-fontobject", ".epub": "application/epub+zip", ".flac": "audio/flac",
    ".geojson": "application/geo+json", ".gif": "image/gif", ".glb": "model/gltf-binary",
    ".gltf": "model/gltf+json", ".gz": "application/gzip", ".heic": "image/heic", ".htm": "text/html",
    ".html": "text/html", ".ico": "image/vnd.microsoft.icon", ".ics": "text/calendar", ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg", ".js": "text/javascript", ".json": "application/json",
    ".jsonld": "application/ld+json", ".jxl": "image/jxl", ".log": "text/plain",
    ".m3u8": "application/vnd.apple.mpegurl", ".m4a": "audio/mp4", ".m4v": "video/mp4",
    ".map": "application/json", ".md": "text/markdown", ".mid": "audio/midi", ".mjs": "text/javascript",
    ".mov": "video/quicktime", ".mp3": "audio/mpeg", ".mp4": "video/mp4", ".mpd": "application/dash+xml",
    ".mpeg": "video/mpeg", ".oga": "audio/ogg", ".ogg": "audio/ogg", ".ogv": "video/ogg",
    ".opus": "audio/ogg", ".otf": "font/otf", ".pdf": "application/pdf", ".png": "image/png",
    ".rss": "application/rss+xml", ".rtf": "application/rtf", ".svg": "image/svg+xml",
    ".tar": "application/x-tar", ".tif": "image/tiff", ".tiff": "image/tiff", ".toml": "application/toml",
    ".tsv": "text/tab-separated-values", ".ttf": "font/ttf", ".txt": "text/plain", ".vtt": "text/vtt",
    ".wasm": "application/wasm", ".wav": "audio/wav", ".weba": "audio/webm", ".webm": "video/webm",
    ".webmanifest": "application/manifest+json", ".webp": "image/webp", ".woff": "font/woff",
    ".woff2": "font/woff2", ".xhtml": "application/xhtml+xml", ".xml": "application/xml",
    ".xsl": "application/xml", ".yaml": "application/yaml", ".yml": "application/yaml",
    ".zip": "application/zip", ".zst": "application/zstd",
}  # fmt: skip

# Contents that are already compressed: compressing again costs time and gains nothing.
_PACKED_PREFIXES = ("video/", "audio/")
_PACKED = {
    "application/epub+zip", "application/gzip", "application/pdf", "application/x-bzip2", "application/zip",
    "application/zstd", "font/woff", "font/woff2", "image/apng", "image/avif", "image/gif", "image/heic",
    "image/jpeg", "image/jxl", "image/png", "image/webp",
}  # fmt: skip
_LOOSE = {"audio/midi", "audio/wav"}
_PACKED_SUFFIXES = (".br",)


def content_type(name: str) -> str:
    """Return the `content-type` for a file name or path, with `charset=utf-8` for text."""
    suffix = name.rpartition("/")[2].rpartition(".")[2].lower()
    kind = _TYPES.get(f".{suffix}", DEFAULT) if "." in name else DEFAULT
    return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind


def compressible(name: str) -> bool:
    """Return whether brotli or gzip can make a file of this name smaller."""
    kind = content_type(name).partition(";")[0]
    if kind in _PACKED or name.lower().endswith(_PACKED_SUFFIXES):
        return False
    return kind in _LOOSE or not kind.startswith(_PACKED_PREFIXES)
