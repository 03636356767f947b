// What stands between the component's `fetch` event and the user's handler, in dev and deploy alike.
import { getEnvironment } from 'wasi:cli/environment@0.2.10';
import { exit } from 'wasi:cli/exit@0.2.10';

const SVC_FRAMES = 24;
const SVC_MISSING = {
  Buffer: 'use Uint8Array, TextEncoder and btoa/atob',
  Intl: 'format dates and numbers by hand or with a small library',
  WebAssembly: 'a component cannot compile code',
  WebSocket: 'use server-sent events and POST',
  URLPattern: 'match new URL(request.url).pathname',
  TextEncoderStream: 'use TextEncoder on each chunk',
  TextDecoderStream: 'use TextDecoder on each chunk',
  require: 'use import',
  window: 'use globalThis',
  document: 'there is no page here',
};

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

function svcDescribe(error) {
  if (!(error instanceof Error)) {
    return error === 'out of memory' ? 'Error: out of memory' : `Uncaught ${typeof error}: ${String(error)}`;
  }
  const missing = /^(\w+) is not defined$/.exec(error.message)?.[1];
  const hint = SVC_MISSING[missing] ? ` (the js lane does not have it: ${SVC_MISSING[missing]})` : '';
  const cause = error.cause === undefined ? '' : `\nCaused by ${svcDescribe(error.cause)}`;
  const stack = (error.stack ?? '').split('\n', SVC_FRAMES).join('\n');
  return `${error.name}: ${error.message}${hint}\n${stack}`.trimEnd() + cause;
}

// The host turns this into the platform's answer before the response began, and cuts the connection after.
export function svcFail(error) {
  console.error(svcDescribe(error));
  exit({ tag: 'err' });
}

const svcNative = Response;
let svcRequest = null;

// StarlingMonkey ends a body whose stream fails as if it were complete; this makes it a failure.
function svcGuarded(stream) {
  const reader = stream.getReader();
  return new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (done) controller.close();
        else controller.enqueue(value);
      } catch (error) {
        svcFail(error);
      }
    },
    cancel: (reason) => reader.cancel(reason),
  }, { highWaterMark: 0 });
}

globalThis.Response = new Proxy(svcNative, {
  construct(target, args, newTarget) {
    // The request's own body goes back out without passing through here.
    if (args[0] instanceof ReadableStream && args[0] !== svcRequest?.body) args[0] = svcGuarded(args[0]);
    return Reflect.construct(target, args, newTarget === globalThis.Response ? target : newTarget);
  },
});

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
        const { app, entry } = load();
        svcAnswering = true;
        svcCheck(app, entry);
        const request = (svcRequest = event.request);
        const context = { waitUntil: (promise) => event.waitUntil(promise), passThroughOnException() {} };
        const response = await app.fetch(request, svcEnv, context);
        if (!(response instanceof svcNative)) {
          throw new TypeError(`${entry}: fetch() returned ${response === null ? 'null' : typeof response}, not a Response`);
        }
        return response;
      } catch (error) {
        svcFail(error);
      }
    })());
  });
}
