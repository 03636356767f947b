"""Conflicts of deploys."""

import time
from textwrap import shorten

from engine.deploy.history import Live
from engine.errors import SvcError


class RevisionConflict(SvcError):
    """Another change went live since the client read the revision; this change was not applied."""

    code = "conflict"


def revision_conflict(project: str, live: Live | None) -> RevisionConflict:
    """Return the error for a deploy that is based on another version than the live one."""
    if live is None:
        return RevisionConflict(
            f"{project} is not live any more", "Look again with --plan, and deploy again."
        )
    activation = live.activations[-1]
    when = time.strftime("%H:%M:%S", time.gmtime(activation.at_ns // 10**9))
    message = f" ({shorten(activation.message, 100)})" if activation.message else ""
    return RevisionConflict(
        f"{activation.by or 'another user'} deployed {activation.deployment} of {project} at {when} UTC"
        f"{message}, after this change was planned; nothing was changed",
        "Run `svc deploy --plan` to see the changes, then deploy again.",
    )
