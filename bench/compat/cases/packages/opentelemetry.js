// @opentelemetry/api, @opentelemetry/sdk-trace-base, @opentelemetry/exporter-trace-otlp-http
import { SpanStatusCode, trace } from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { BasicTracerProvider, BatchSpanProcessor, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';
import { checks } from '../checks.js';

export default checks({
  'spans': async () => {
    const exporter = new InMemorySpanExporter();
    const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
    const span = provider.getTracer('shop').startSpan('order', { attributes: { n: 1 } });
    span.addEvent('paid').setStatus({ code: SpanStatusCode.ERROR, message: 'no' }).end();
    await provider.forceFlush();
    return exporter.getFinishedSpans().map(({ name, attributes, events, status }) => [name, attributes, events[0].name, status]);
  },
  'export': async (env) => {
    const exporter = new OTLPTraceExporter({ url: `${env.UPSTREAM}/echo` });
    const provider = new BasicTracerProvider({ spanProcessors: [new BatchSpanProcessor(exporter)] });
    provider.getTracer('shop').startSpan('order').end();
    await provider.shutdown();
    return typeof trace.getTracer('x').startSpan('y').spanContext().traceId;
  },
});
