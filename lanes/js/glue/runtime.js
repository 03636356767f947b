// The listener of the component's `fetch` event: it calls the user's handler, in dev and deploy builds.
import { ask } from 'svc:doors/call@0.1.0';
import './crypto/subtle.js';
import './events.js';
import { svcIncoming } from './fetch.js';
import './form_data.js';
import './globals.js';
import './streams.js';
import './byte_streams.js';
import './pipe.js';
import './file_reader.js';
import { compile } from './define.js';
import { svcHosting } from './crypto/host.js';
import { svcFail } from './failure.js';
import { svcBeginRequest, svcEnv } from './process.js';
import { svcReceive, svcSendable } from './response.js';
import { svcAnswers, svcFlush } from './telemetry.js';

// Doors, for '@svc/guest' and compat/crypto.cjs.
globalThis[Symbol.for('svc.doors')] = ask;

export function svcCheck(app, entry) {
  if (typeof app?.fetch !== 'function') {
    throw new TypeError(
      `${entry}: the default export must be an object with a fetch method: ` +
      'export default { async fetch(request) { return new Response("hello"); } }',
    );
  }
  return app;
}

async function answer(event, load, begin) {
  try {
    begin();
    svcHosting.begun = true;
    svcHosting.waiting?.forEach((resume) => resume());
    svcAnswers(event);
    const { app, entry } = load();
    svcBeginRequest();
    svcCheck(app, entry);
    const { request } = event;
    svcReceive(request);
    svcIncoming(request);
    const context = { waitUntil: (promise) => event.waitUntil(promise), passThroughOnException() {} };
    const response = await app.fetch(request, svcEnv, context);
    svcFlush();
    const sendable = svcSendable(response);
    if (!sendable) {
      throw new TypeError(`${entry}: fetch() returned ${response === null ? 'null' : typeof response}, not a Response`);
    }
    if (response.bodyUsed) throw new TypeError(`${entry}: fetch() returned a Response whose body was read already`);
    return sendable;
  } catch (error) {
    svcFail(error);
  }
}

/**
 * Answer requests. `load` returns the user's default export and the name of its file; `begin` runs before it.
 */
export function svcServe(load, begin) {
  const listener = (event) => event.respondWith(answer(event, load, begin));
  compile(answer, listener, load, begin, svcAnswers, svcBeginRequest, svcCheck, svcReceive, svcIncoming, svcFlush, svcSendable);
  addEventListener('fetch', listener);
}
