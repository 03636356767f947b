"""`python -m svc_tui` is `svc`."""

from svc_tui.main import main

main()
