"""Secrets in a bucket: sealed at rest and in copies."""

from pathlib import Path

import pytest

from engine.bucket.copy import copy_bucket
from engine.bucket.folder import FolderBucket
from engine.service.secrets import KEY_FILE, SecretsKey, SecretsKeyError, SecretStore
from tests.engine.deploy.packing import opened

VALUE = "a secret value ü"


def test_bucket_has_sealed_values_only(tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        await bucket.kv.cas("secrets/old", b'{"KEY": "a secret value \xc3\xbc"}', None)
        store = SecretStore(bucket.kv, SecretsKey.open(tmp_path))
        await store.seal_all()
        await store.set("shop", "KEY", VALUE)
        copy = FolderBucket(tmp_path / "copy")
        await copy_bucket(bucket, copy, lambda report: None)
        await copy.aclose()
        for project in ("old", "shop"):
            assert await store.values(project, {"KEY", "OTHER"}) == {"KEY": VALUE}

    opened(tmp_path / "bucket", scenario)
    assert (tmp_path / KEY_FILE).stat().st_mode & 0o077 == 0
    for folder in ("bucket", "copy"):
        assert not [
            path
            for path in (tmp_path / folder).rglob("*")
            if path.is_file() and b"secret value" in path.read_bytes()
        ]

    async def elsewhere(bucket: FolderBucket) -> None:
        restored = SecretStore(bucket.kv, SecretsKey.open(tmp_path))
        assert await restored.values("shop", {"KEY"}) == {"KEY": VALUE}
        store = SecretStore(bucket.kv, SecretsKey.create())
        with pytest.raises(SecretsKeyError, match="secret shop/KEY is sealed with the key"):
            await store.values("shop", {"KEY"})
        assert await store.names("shop") == ["KEY"]
        assert await store.values("shop", {"OTHER"}) == {}
        await store.set("shop", "KEY", "new")
        assert await store.values("shop", {"KEY"}) == {"KEY": "new"}
        value = await bucket.kv.get("secrets/shop")
        old = await bucket.kv.get("secrets/old")
        assert value is not None
        assert old is not None
        await bucket.kv.cas("secrets/old", value.value, old.revision)
        with pytest.raises(SecretsKeyError, match="secret old/KEY is corrupt"):
            await store.values("old", {"KEY"})

    opened(tmp_path / "copy", elsewhere)


def test_corrupt_key_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).write_text("no key")
    with pytest.raises(SecretsKeyError, match=r"secrets\.key is corrupt"):
        SecretsKey.open(tmp_path)
    (tmp_path / KEY_FILE).write_text(SecretsKey.create().text + SecretsKey.create().text)
    assert len(SecretsKey.open(tmp_path).text.split()) == 2
