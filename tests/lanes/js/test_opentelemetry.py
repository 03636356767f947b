"""OpenTelemetry's own packages in js guests, and their bundling."""

import asyncio

import pytest

from engine.lane import BuildMode
from tests.lanes.js.npm import node_modules
from tests.lanes.js.sources import Sources, ask
from tests.lanes.logged import run

pytestmark = pytest.mark.slow
EXPORTERS = ("exporter-logs-otlp-http", "exporter-logs-otlp-proto")
PACKAGES = [f"@opentelemetry/{name}@0.223" for name in ("sdk-logs", *EXPORTERS)]
PROGRAM = """\
import { LoggerProvider, BatchLogRecordProcessor } from '@opentelemetry/sdk-logs';
import { OTLPLogExporter } from '@opentelemetry/exporter-logs-otlp-http';

export default {
  async fetch(request, env, context) {
    const exporter = new OTLPLogExporter({ url: `${env.SVC_TELEMETRY_ENDPOINT}/v1/logs` });
    const provider = new LoggerProvider({ processors: [new BatchLogRecordProcessor({ exporter })] });
    const logger = provider.getLogger('shop', '1.2');
    logger.emit({
      severityNumber: 13,
      severityText: 'WARN',
      body: 'slow order',
      attributes: { order: 42, rate: 0.5, tags: ['a', 'b'], who: { name: 'ü' } },
    });
    for (let n = 0; n < 600; n++) logger.emit({ severityNumber: 5, body: `number ${n}` });
    context.waitUntil(provider.shutdown());
    return new Response('hello');
  },
};
"""


@pytest.mark.parametrize(
    ("mode", "exporter", "path"),
    [("dev", EXPORTERS[0], "/v1/logs"), ("dev", EXPORTERS[1], "/v1/logs"), ("deploy", EXPORTERS[1], "")],
)
def test_opentelemetry_exporter_sends_records(
    sources: Sources, mode: BuildMode, exporter: str, path: str
) -> None:
    sources.write("index.js", PROGRAM.replace(EXPORTERS[0], exporter).replace("/v1/logs", path))
    (sources.workdir / "node_modules").symlink_to(
        node_modules(sources.cache, *PACKAGES), target_is_directory=True
    )
    logged = asyncio.run(run(sources.cache, sources.resource, sources.build(mode), "/"))
    assert (logged.answer.body, logged.answer.report.outcome) == (b"hello", "ok")
    first, *others = logged.entries
    assert (first.severity, first.body, first.caller.request_id) == ("WARN", "slow order", "request-1")
    assert first.attributes == {
        "order": "42",
        "rate": "0.5",
        "tags": '["a","b"]',
        "who": '{"name":"ü"}',
        "otel.scope.name": "shop",
        "otel.scope.version": "1.2",
    }
    assert [entry.body for entry in others] == [f"number {n}" for n in range(600)]
    assert {answer.status for answer in logged.answers} == {200}


def test_package_is_bundled_with_its_browser_files(sources: Sources) -> None:
    package = '{"name": "both", "module": "index.js", "browser": {"./node.js": "./web.js", "fs": false}}'
    sources.write("node_modules/both/package.json", package)
    sources.write("node_modules/both/index.js", "import 'fs';\nexport { where } from './node.js';\n")
    sources.write("node_modules/both/node.js", "import 'http';\nexport const where = 'node';\n")
    sources.write("node_modules/both/web.js", "export const where = 'web';\n")
    sources.write(
        "index.js",
        "import { where } from 'both';\n"
        "export default { fetch: () => {\n"
        "  process.env.NODE_ENV = 'mine';\n"
        "  return new Response(where + process.env.NODE_ENV);\n"
        "} };\n",
    )
    (answer,) = ask(sources, sources.build(), "/")
    assert answer.body == b"webmine"


TRACING = """\
import { BasicTracerProvider, BatchSpanProcessor } from '@opentelemetry/sdk-trace-base';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { ROOT_CONTEXT, trace } from '@opentelemetry/api';
import { W3CTraceContextPropagator } from '@opentelemetry/core';

export default {
  async fetch(request, env, context) {
    const exporter = new OTLPTraceExporter({ url: `${env.SVC_TELEMETRY_ENDPOINT}/v1/traces` });
    const provider = new BasicTracerProvider({ spanProcessors: [new BatchSpanProcessor(exporter)] });
    const tracer = provider.getTracer('shop');
    const carrier = { traceparent: request.headers.get('traceparent') };
    const caller = new W3CTraceContextPropagator().extract(ROOT_CONTEXT, carrier, {
      get: (fields, name) => fields[name],
      keys: (fields) => Object.keys(fields),
    });
    const outer = tracer.startSpan('order', { attributes: { order: 42 } }, caller);
    tracer.startSpan('reserve', {}, trace.setSpan(ROOT_CONTEXT, outer)).end();
    outer.end();
    context.waitUntil(provider.shutdown());
    return new Response('hello');
  },
};
"""


def test_opentelemetry_spans_are_in_the_trace(sources: Sources) -> None:
    sources.write("index.js", TRACING)
    packages = ("api@1.9", "core@2", "sdk-trace-base@2", "exporter-trace-otlp-http@0.223")
    modules = node_modules(sources.cache, *(f"@opentelemetry/{name}" for name in packages))
    (sources.workdir / "node_modules").symlink_to(modules, target_is_directory=True)
    parent = f"00-{'a' * 32}-{'b' * 16}-01"
    logged = asyncio.run(
        run(
            sources.cache,
            sources.resource,
            sources.build("dev"),
            "/",
            headers=((b"traceparent", parent.encode()),),
        )
    )
    assert (logged.answer.body, logged.answer.report.outcome) == (b"hello", "ok")
    spans = [call for call in logged.answer.calls if call.kind == "span"]
    assert {call.name: call.parent < 0 for call in spans} == {"order": True, "reserve": False}
    assert {call.parent_id for call in spans} >= {"b" * 16}
    assert {(call.details or {})["trace_id"] for call in spans} == {"a" * 32}
