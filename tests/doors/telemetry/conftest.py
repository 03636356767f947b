from collections.abc import Callable
from pathlib import Path

import pytest

from tests.doors.telemetry.telemetry_door import OpenTelemetry


@pytest.fixture
def telemetry(tmp_path: Path) -> OpenTelemetry:
    return OpenTelemetry(tmp_path)


@pytest.fixture
def severity(telemetry: OpenTelemetry) -> Callable[..., str]:
    return lambda number=0, text="": (
        telemetry.record({"severityNumber": number, "severityText": text}).severity
    )
