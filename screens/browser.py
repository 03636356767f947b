"""Opening URLs in a browser, graphical or in this terminal."""

import asyncio
import webbrowser
from typing import Any

from textual.app import App, SuspendNotSupported

from svc_tui.client import SvcError


async def open_in_browser(app: App[Any], address: str) -> None:
    """Open a URL. Raises `SvcError` if this machine has no browser.

    A terminal browser suspends the Console until it exits.
    """
    if app.is_web:
        app.open_url(address)
        return
    try:
        browser = await asyncio.to_thread(webbrowser.get)
        takes_terminal = isinstance(browser, webbrowser.GenericBrowser) and not isinstance(
            browser, webbrowser.BackgroundBrowser
        )
        if not takes_terminal:
            await asyncio.to_thread(browser.open, address)
            return
        with app.suspend():
            browser.open(address)
    except (webbrowser.Error, SuspendNotSupported) as error:
        raise SvcError(f"cannot open {address}: no browser found", "Press y to copy the address.") from error
