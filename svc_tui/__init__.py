"""The terminal tool `svc`."""

import svc_tui.composition  # noqa: F401 - registers the lanes with the manifest
