"""The certificates that a service serves with: files that are read again after a change, or those by ACME."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from functools import partial

from engine.bucket.protocols import Bucket
from engine.cancellation import cancel
from engine.certificates.manager import CertificateManager
from engine.certificates.store import CertificateStore
from engine.fleet.fleet import Fleet
from engine.http.tls import Certificate, CertificateError, CertificateSet, Tls
from engine.service.secrets_key import SecretsKey
from engine.timeline.record import PlatformRecord
from svc_tui.serve.runtime import Runtime
from svc_tui.serve.settings import ServiceSettings

CHECK_SECONDS = 5.0
"""How often files are checked for changes."""


@contextlib.asynccontextmanager
async def certified(
    settings: ServiceSettings, runtime: Runtime, bucket: Bucket, node: Fleet, tls: Tls | None
) -> AsyncIterator[CertificateManager | None]:
    """Replace the certificates of `tls` and of all workers by new ones; yields what obtains them."""

    def use(certificates: CertificateSet) -> None:
        assert tls is not None
        tls.use(certificates)
        runtime.certificates.used = certificates
        if runtime.workers is not None:
            runtime.workers.certify(certificates)

    def report(project: str, text: str) -> None:
        settings.log("error", text)
        runtime.tenants.timeline(project).append(PlatformRecord(time.time_ns(), "", "ERROR", text))

    manager: CertificateManager | None = None
    if settings.certificate is not None:
        use(CertificateSet(settings.certificate.load()))
        work = _follow_files(settings.certificate, use, partial(settings.log, "error"))
    elif settings.acme is not None:
        manager = CertificateManager(
            settings.acme,
            CertificateStore(bucket.kv, SecretsKey.open(settings.data)),
            domain=settings.domain,
            hosts=runtime.serving.public_hosts,
            use=use,
            report=report,
            alert=partial(runtime.monitor.report, "certificate"),
            node=node.node.node if node.node is not None else "",
        )
        await manager.start()
        runtime.on_activated = manager.activated
        runtime.certificates.manager = manager
        work = manager.run()
    else:
        yield None
        return
    task = asyncio.create_task(work)
    try:
        yield manager
    finally:
        runtime.on_activated = None
        await cancel([task])


async def _follow_files(
    certificate: Certificate, use: Callable[[CertificateSet], None], report: Callable[[str], None]
) -> None:
    """Load the files of a certificate again after each change; report files that cannot be used."""
    loaded = certificate.state()
    while True:
        await asyncio.sleep(CHECK_SECONDS)
        if (state := certificate.state()) == loaded:
            continue
        loaded = state
        try:
            use(CertificateSet(certificate.load()))
        except CertificateError as error:
            report(f"{error.message}; svc serves with the certificate that it loaded before ({error.hint})")
