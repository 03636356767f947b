// Two routes: the current numbers as JSON, and a stream of them as server-sent events.
const STREAM_MS = 25_000; // Stay within run_limit_secs; the browser reconnects by itself.
const encoder = new TextEncoder();
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// Three made-up meters that drift with the time of day, so that every instance agrees on them.
function measure(time) {
  const seconds = time / 1000;
  const wave = (period, phase) => Math.sin((seconds / period) * 2 * Math.PI + phase);
  return {
    time: new Date(time).toISOString(),
    visitors: Math.round(420 + 160 * wave(47, 0) + 40 * wave(7, 1)),
    orders: Math.round(38 + 14 * wave(31, 2) + 6 * wave(5, 0)),
    latency: Math.round(86 + 30 * wave(19, 4) + 12 * wave(3, 2)),
  };
}

function events(request) {
  let id = Number(request.headers.get('last-event-id') ?? 0) || 0;
  const body = new ReadableStream({
    async start(controller) {
      const end = Date.now() + STREAM_MS;
      controller.enqueue(encoder.encode('retry: 500\n\n'));
      while (Date.now() < end) {
        const data = JSON.stringify(measure(Date.now()));
        controller.enqueue(encoder.encode(`id: ${++id}\ndata: ${data}\n\n`));
        await sleep(1000);
      }
      controller.close();
    },
  });
  return new Response(body, {
    headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' },
  });
}

export default {
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    if (pathname === '/api/events') return events(request);
    if (pathname === '/api/now') {
      return Response.json({ ...measure(Date.now()), request: env.SVC_REQUEST_ID });
    }
    return new Response('nothing here; try /api/now or /api/events\n', { status: 404 });
  },
};
