// What stands between the component's `fetch` event and the user's handler, in dev and deploy alike.
import { getEnvironment } from 'wasi:cli/environment@0.2.10';
import { ask } from 'svc:doors/call@0.1.0';
import './events.js';
import './fetch.js';
import './form_data.js';
import './globals.js';
import './streams.js';
import { svcFail } from './failure.js';
import { svcReceive, svcSendable } from './response.js';
import { svcAnswers, svcFlush } from './telemetry.js';

// Asked for once a request, and only when something is read from it. Empty while the module is evaluated:
// a deploy build does that without any environment.
let svcVariables = {};
let svcAnswering = false;
function svcLoaded() {
  if (svcAnswering) {
    svcAnswering = false;
    svcVariables = Object.fromEntries(getEnvironment());
  }
  return svcVariables;
}
const svcEnv = new Proxy({}, {
  get: (_, name) => svcLoaded()[name],
  has: (_, name) => name in svcLoaded(),
  ownKeys: () => Reflect.ownKeys(svcLoaded()),
  getOwnPropertyDescriptor: (_, name) => Object.getOwnPropertyDescriptor(svcLoaded(), name),
  set: (_, name, value) => Reflect.set(svcLoaded(), name, String(value)),
  deleteProperty: (_, name) => Reflect.deleteProperty(svcLoaded(), name),
});
globalThis.process ??= {
  env: svcEnv,
  argv: [],
  nextTick: (callback, ...args) => queueMicrotask(() => callback(...args)),
};
globalThis.global ??= globalThis;
// The short way to a Door, which '@svc/guest' finds where it is hosted.
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

// `load` returns the user's default export and the name of its file.
export function svcServe(load, begin) {
  addEventListener('fetch', (event) => {
    event.respondWith((async () => {
      try {
        begin();
        svcAnswers(event);
        const { app, entry } = load();
        svcAnswering = true;
        svcCheck(app, entry);
        const { request } = event;
        svcReceive(request);
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
    })());
  });
}
