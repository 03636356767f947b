"""Entry point of `python -m svc_tui`."""

from svc_tui.main import main

main()
