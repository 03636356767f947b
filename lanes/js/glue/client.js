// The client of the request. The host answers a request to `client.svc.internal` when the client has disconnected.
import { compile } from './define.js';
import { svcDescribe, svcPrint } from './failure.js';

const nativeFetch = fetch;
/** By path: a promise that resolves when the client has disconnected. */
const watches = new Map();
let signal;

async function watch(path) {
  const { status } = await nativeFetch(`http://client.svc.internal${path}`);
  return status === 204 ? new DOMException('the client disconnected', 'AbortError') : new Promise(() => {});
}

/**
 * Call `leave` with the reason when the client has disconnected. From then on, the host discards what is written.
 *
 * With the path '/idle', a run whose promises nothing else can settle fails at once.
 */
export function svcWhenGone(leave, path) {
  if (!watches.has(path)) watches.set(path, watch(path));
  watches.get(path).then(leave).catch((error) => svcPrint(svcDescribe(error)));
}

/** Return the signal that is aborted when the client has disconnected. */
export function svcClientSignal() {
  if (!signal) {
    const controller = new AbortController();
    ({ signal } = controller);
    svcWhenGone((reason) => controller.abort(reason), '/signal');
  }
  return signal;
}

// For '@svc/guest'.
globalThis[Symbol.for('svc.client')] = svcClientSignal;

compile(svcWhenGone, watch);
