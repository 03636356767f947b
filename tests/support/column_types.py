"""The column types as the control API describes them."""

from dataclasses import asdict

from doors.tables.api.routes import list_types
from svc_tui.tables_syntax import ColumnTypes

TYPES = ColumnTypes.from_document(asdict(list_types()))
