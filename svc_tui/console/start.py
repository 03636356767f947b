"""What the Console has to know of this user: the way into services, and what there is without a Project."""

import os
from collections.abc import Sequence
from pathlib import Path

from engine.errors import SvcError
from svc_tui.client.credentials import CredentialStore, NotLoggedIn, current_project, open_client
from svc_tui.client.login import login_client
from svc_tui.client.urls import check_encryption, service_url
from svc_tui.project import scaffold


class LoginActions:
    """Logging in, as the Console's dialogue asks for it. Methods raise `SvcError`."""

    def last_url(self) -> str:
        """Return the address of the service that was used last; empty where there is none."""
        urls = (key for key in CredentialStore.from_environment(os.environ).services() if "://" in key)
        return next(urls, "")

    def is_claimed(self, url: str) -> bool:
        """Return whether the service at an address has an owner. Refused where no session would count."""
        if os.environ.get("SVC_TOKEN"):
            raise SvcError(
                "SVC_TOKEN is set and goes before any session", "Unset it, and start svc again to log in."
            )
        with login_client(_checked(url)) as way:
            return way.is_claimed()

    def log_in(self, url: str, user: str, password: str, code: str | None) -> str:
        """Log in, or become the first owner by the claim code; keep the session and return its key."""
        with login_client(_checked(url)) as way:
            login = way.login(user, password, code)
        logins = CredentialStore.from_environment(os.environ)
        logins.save(login)
        if (project := current_project()) is not None:
            logins.link_project(project, login.key)
        return login.key


class StartActions:
    """What can be made and opened in a folder that is in no Project. Methods raise `SvcError`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def templates(self) -> Sequence[tuple[str, str]]:
        """Return the templates, the one that shows most first."""
        return tuple(scaffold.TEMPLATES.items())

    def create(self, name: str, template: str) -> None:
        """Make a Project in a folder of this one."""
        scaffold.create_project(self._folder / name, template)

    def deployed_projects(self) -> tuple[str, Sequence[str]]:
        """Return the service that one is logged in to, and its Projects."""
        try:
            login = CredentialStore.from_environment(os.environ).get()
        except NotLoggedIn:
            return "", ()
        with open_client(login) as client:
            return login.key, list(client.call("GET", "/v1/projects")["projects"])


def _checked(text: str) -> str:
    url = service_url(text)
    check_encryption(url, insecure=False)
    return url
