from pathlib import Path

import pytest


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The missing `SVC_HOME` of a user outside of any project, without a keyring."""
    for name in ("SVC_URL", "SVC_TOKEN", "SVC_INSECURE"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "home ü"
    monkeypatch.setenv("SVC_HOME", str(folder))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return folder
