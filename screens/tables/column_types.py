"""The column types of the control API that the Console is connected to."""

from screens.project_client import ProjectClient
from svc_tui.column_types import ColumnTypes


async def fetch_types(link: ProjectClient) -> ColumnTypes:
    """Return the column types. Raises `SvcError`."""
    return ColumnTypes.from_document(await link.call("GET", "/tables/types"))
