// The listener of the component's `fetch` event: it calls the user's handler, in dev and deploy builds.
import { ask, start } from 'svc:doors/call@0.1.0';
import { subscribeDuration } from 'wasi:clocks/monotonic-clock@0.2.10';
import './console.js';
import './caches.js';
import './crypto/subtle.js';
import './events.js';
import './fetch.js';
import './form_data.js';
import './globals.js';
import './streams.js';
import './byte_streams.js';
import './pipe.js';
import './file_reader.js';
import './timers.js';
import './web_assembly.js';
import { svcWhenGone } from './client.js';
import { svcCurrent } from './current.js';
import { compile } from './define.js';
import { svcFail } from './failure.js';
import { svcEnv } from './process.js';
import { svcSendable } from './response.js';
import { svcFlush } from './telemetry.js';

// Doors, for compat/crypto.cjs and '@svc/guest'. Those of the library answer requests only: a deploy build has none.
globalThis[Symbol.for('svc.doors')] = ask;
globalThis[Symbol.for('svc.start')] = (...call) => {
  if (!svcCurrent.request) return null;
  const answer = start(...call);
  subscribeDuration(0n)[Symbol.dispose](); // sets the clock, which does not see calls of Doors
  return answer;
};

export function svcCheck(app, entry) {
  if (typeof app?.fetch !== 'function') {
    throw new TypeError(
      `${entry}: the default export must be an object with a fetch method: ` +
      'export default { async fetch(request) { return new Response("hello"); } }',
    );
  }
  return app;
}

const context = {
  waitUntil(promise) {
    svcCurrent.event.waitUntil(promise);
    svcWhenGone(() => {}, '/idle'); // so that a failed write does not end the run
  },
  passThroughOnException() {},
};
// For the module cloudflare:workers.
globalThis[Symbol.for('svc.context')] = context;

/** Call the user's `scheduled` for a run of a schedule, and return the response that reports its success. */
async function runScheduled(app, { headers }) {
  await app.scheduled({
    scheduledTime: Date.parse(headers.get('x-svc-scheduled-time')),
    cron: headers.get('x-svc-schedule-times'),
    path: headers.get('x-svc-schedule'),
    noRetry() {},
  }, svcEnv, context);
  return new Response(null, { status: 204 });
}

async function answer(event, load) {
  try {
    svcCurrent.event = event;
    svcCurrent.waiting?.forEach((resume) => resume());
    const { app, entry } = load(), request = (svcCurrent.request = event.request);
    const isScheduled = typeof app.scheduled === 'function' && request.headers.has('x-svc-schedule');
    const response = isScheduled ? await runScheduled(app, request) : await app.fetch(request, svcEnv, context);
    svcFlush();
    return svcSendable(response, entry);
  } catch (error) {
    svcFail(error);
  }
}

/** Answer requests. `load` returns the user's default export, as `svcCheck` does, and the name of its file. */
export function svcServe(load) {
  const listener = (event) => event.respondWith(answer(event, load));
  compile(answer, listener, load, svcFlush, svcSendable);
  addEventListener('fetch', listener);
}
