// Each request runs this module in a new WebAssembly instance: nothing in memory survives.
import { eventStream, json, log, sleep } from '@svc/guest';

// A body can be a stream: each event is sent at once.
function countdown() {
  return eventStream(async (events) => {
    for (let n = 5; n > 0; n--) {
      await events.send({ data: { n } });
      await sleep(1000, events.signal);
    }
  });
}

export default {
  /**
   * Handle one request. `env` has the variables of svc.toml and those of svc.
   * @param {Request} request
   * @param {Record<string, string>} env
   */
  async fetch(request, env) {
    const url = new URL(request.url);
    switch (url.pathname) {
      case '/':
        return new Response('Hello from PROJECT. Try /json?name=you and /events.\n');
      case '/json': {
        const name = url.searchParams.get('name') ?? 'world';
        log.info('greeted', { name });
        return json({ hello: name, request: env.SVC_REQUEST_ID });
      }
      case '/events':
        return countdown();
      default:
        return new Response('not found\n', { status: 404 });
    }
  },
};
