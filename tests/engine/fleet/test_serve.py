"""`svc serve --bucket` and `svc bucket` on a cluster, as processes."""

import json
import re
from pathlib import Path

import pytest

from engine.errors import InvalidUsage
from engine.fleet.node import FleetNode, NodeAddress, State
from svc_tui.serve.bucket_location import ClusterKeys, ClusterLocation, parse_location
from svc_tui.serve.systemd_units import service_unit
from tests.engine.fleet.cluster import Cluster
from tests.support.service import ANY_PORTS, Server, environ_of, login, prepare, run, static_project


@pytest.fixture
def options(cluster: Cluster, tmp_path: Path) -> list[str]:
    """The options for the cluster's keys."""
    assert cluster.address.nkey is not None
    seed = tmp_path / "seed ü"
    seed.write_text(cluster.address.nkey.seed)
    node = cluster.settings[0]
    files = {"ca": node.authority, "cert": node.certificate, "key": node.key, "creds": seed}
    return [text for name, path in files.items() for text in (f"--bucket-{name}", str(path))]


def url(cluster: Cluster, name: str) -> str:
    hosts = ",".join(server.removeprefix("tls://") for server in cluster.address.servers)
    return f"tls://{hosts}/{name}"


@pytest.mark.slow(seconds=30)
def test_service_on_cluster_moves_between_machines_and_folders(
    cluster: Cluster, options: list[str], tmp_path: Path
) -> None:
    project, environ = static_project(tmp_path / "shop"), environ_of(tmp_path / "home")
    place = ("--bucket", url(cluster, "moves"), *options)
    first = Server(tmp_path / "first", environ, *place)
    try:
        login(first, project, environ)
        with cluster.paused(1):
            prepare(project, environ, "deploy")
            assert first.get().text == "one"
        cluster.wait()

        second = run(project, environ, "serve", "--data", str(tmp_path / "second"), *ANY_PORTS, *place)
        assert second.returncode == 1
        assert "the bucket is in use by svc serve on " in second.stderr
        assert "Stop that service first" in second.stderr

        copy = str(tmp_path / "copy")
        report = run(project, environ, "bucket", "backup", place[1], copy, *options, "--json")
        assert report.returncode == 0, report.stderr
        assert json.loads(report.stdout)["blobs"] > 0
    finally:
        assert first.stop() == 0

    for data, bucket in ((tmp_path / "second", place), (tmp_path / "copy", ())):
        server = Server(data, environ, *bucket)
        try:
            assert server.get().text == "one"
        finally:
            assert server.stop() == 0

    other = url(cluster, "other")
    prepare(project, environ, "bucket", "migrate", copy, other, *options)
    prepare(project, environ, "bucket", "migrate", copy, other, *options)
    prepare(project, environ, "bucket", "verify", other, *options)

    blob = next(path for path in (tmp_path / "copy" / "blobs").iterdir())
    blob.chmod(0o644)
    blob.write_bytes(b"other")
    damaged = run(project, environ, "bucket", "verify", copy)
    assert damaged.returncode == 1
    assert re.search(rf"^corrupt  blob sha256:{blob.name}  deployment shop/", damaged.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nats://", "invalid bucket nats://"),
        ("http://host", "invalid bucket http://host"),
        ("nats://ann:secret@", "invalid bucket nats://"),
        ("nats://127.0.0.1/Ü", 'invalid bucket name "Ü"'),
        ("nats://10.0.0.1", "secrets would go to 10.0.0.1 without TLS"),
    ],
)
def test_invalid_bucket_is_refused_without_its_password(text: str, message: str) -> None:
    with pytest.raises(InvalidUsage) as caught:
        parse_location(text, ClusterKeys())
    assert message in caught.value.message
    assert "secret:" not in caught.value.text
    assert "ann" not in caught.value.text


def test_systemd_unit_has_absolute_paths_and_unchanged_urls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ["--bucket", "tls://10.0.0.1/shop", "--bucket-creds", "seed", "--bucket-ca=ca.pem"]
    unit = service_unit("svc", ["svc", "serve", *options], tmp_path, grace=1, memory_mib=0)
    assert f"--bucket tls://10.0.0.1/shop --bucket-creds {Path('seed').absolute()} " in unit
    assert f"--bucket-ca={Path('ca.pem').absolute()}" in unit
    unit = service_unit("svc", ["svc", "serve", "--bucket", "node1"], tmp_path, grace=1, memory_mib=0)
    assert f"--bucket {Path('node1').absolute()}" in unit


@pytest.mark.parametrize("state", ["member", "founding"])
def test_data_directory_of_a_node_names_the_bucket_that_it_uses(tmp_path: Path, state: State) -> None:
    address = NodeAddress("10.0.0.1", 4222)
    node = FleetNode(fleet="9f3a1c", node="n1", address=address, nodes=(address,), client="", system="")
    (tmp_path / "fleet").mkdir()
    node.save(tmp_path / "fleet", state=state)
    location = parse_location(str(tmp_path), ClusterKeys())
    assert isinstance(location, ClusterLocation) is (state == "member")
    assert str(location) == ("nats://10.0.0.1:4222/svc" if state == "member" else str(tmp_path))


def test_cluster_location_lists_servers_and_hides_the_password() -> None:
    location = parse_location("nats://ann:secret@127.0.0.1,[::1]:5222/shop", ClusterKeys())
    assert isinstance(location, ClusterLocation)
    assert location.servers == ("nats://ann:secret@127.0.0.1:4222", "nats://ann:secret@[::1]:5222")
    assert str(location) == "nats://127.0.0.1:4222,[::1]:5222/shop"
    assert parse_location("tls://10.0.0.1", ClusterKeys()).tls is True
