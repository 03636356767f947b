"""Actions behind the login dialog and the start screen."""

import os
from collections.abc import Sequence
from pathlib import Path

from engine.errors import SvcError
from svc_tui.client.credentials import CredentialStore, NotLoggedIn, current_project, open_client
from svc_tui.client.login import login_client
from svc_tui.client.urls import check_encryption, service_url
from svc_tui.project import scaffold


class LoginActions:
    """Logs in to services. Methods raise `SvcError`."""

    def last_url(self) -> str:
        """Return the URL of the service that was used last, or "" if there is none."""
        urls = (key for key in CredentialStore.from_environment(os.environ).services() if "://" in key)
        return next(urls, "")

    def is_claimed(self, url: str) -> bool:
        """Return whether the service at a URL has an owner. Raises `SvcError` if SVC_TOKEN is set."""
        if os.environ.get("SVC_TOKEN"):
            raise SvcError(
                "SVC_TOKEN is set and overrides saved sessions",
                "Unset SVC_TOKEN and start svc again to log in.",
            )
        with login_client(_checked(url)) as client:
            return client.is_claimed()

    def log_in(self, url: str, user: str, password: str, code: str | None) -> str:
        """Log in, or create the first owner with the claim code. Save the session; return its key."""
        with login_client(_checked(url)) as client:
            login = client.login(user, password, code)
        logins = CredentialStore.from_environment(os.environ)
        logins.save(login)
        if (project := current_project()) is not None:
            logins.link_project(project, login.key)
        return login.key


class StartActions:
    """Creates projects in a folder and lists deployed ones. Methods raise `SvcError`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def templates(self) -> Sequence[tuple[str, str]]:
        """Return name and description of each template, the recommended one first."""
        return tuple(scaffold.TEMPLATES.items())

    def create(self, name: str, template: str) -> None:
        scaffold.create_project(self._folder / name, template)

    def deployed_projects(self) -> tuple[str, Sequence[str]]:
        """Return the key of the current service and its projects; both empty without a session."""
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
