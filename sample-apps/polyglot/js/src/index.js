// Each request runs this module in a new WebAssembly instance: nothing in memory survives.
import { eventStream, json, log, sleep } from '@svc/guest';

const TICKS = 50; // 25 s, within run_limit_secs; the browser reconnects by itself.

function hello(request, path, env) {
  const { method } = request;
  log.info('hello', { lane: 'js', method, path });
  const message = 'Hello from JavaScript';
  return json({ lane: 'js', message, method, path, runtime: 'StarlingMonkey', request: env.SVC_REQUEST_ID });
}

// When the client disconnects, `signal` ends the sleep and the next `send` fails, which ends the handler.
function events(request) {
  const seen = Number(request.headers.get('last-event-id')) || 0;
  return eventStream(async ({ send, signal }) => {
    for (let n = seen + 1; n <= seen + TICKS; n++) {
      await send({ id: n, retry: 500, data: { lane: 'js', n } });
      await sleep(500, signal);
    }
  });
}

// Returns the request body while it arrives, in constant memory.
function echo(request) {
  const type = request.headers.get('content-type') ?? 'application/octet-stream';
  return new Response(request.body, { headers: { 'content-type': type } });
}

function fail() {
  log.warn('about to fail', { lane: 'js' });
  throw new Error('thrown on purpose');
}

export default {
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    switch (`${request.method} ${pathname}`) {
      case 'GET /js/hello':
        return hello(request, pathname, env);
      case 'GET /js/events':
        return events(request);
      case 'POST /js/echo':
        return echo(request);
      case 'GET /js/fail':
        return fail();
      default:
        return new Response('not found\n', { status: 404 });
    }
  },
};
