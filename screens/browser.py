"""Opening an address in a browser: in a window, or in this terminal, which is lent to it meanwhile."""

import asyncio
import webbrowser
from typing import Any

from textual.app import App, SuspendNotSupported

from svc_tui.client import SvcError


async def open_in_browser(app: App[Any], address: str) -> None:
    """Open an address. Raises `SvcError` where there is no browser."""
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
        raise SvcError(f"there is no browser here for {address}", "Copy the address with y.") from error
