// What stands between the component's `fetch` event and the user's handler, in dev and deploy alike.
import { getEnvironment } from 'wasi:cli/environment@0.2.10';
import { exit } from 'wasi:cli/exit@0.2.10';

const FRAMES = 24;
const MISSING = {
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
let variables = {};
let answering = false;
function loaded() {
  if (answering) {
    answering = false;
    variables = Object.fromEntries(getEnvironment());
  }
  return variables;
}
const env = new Proxy({}, {
  get: (_, name) => loaded()[name],
  has: (_, name) => name in loaded(),
  ownKeys: () => Reflect.ownKeys(loaded()),
  getOwnPropertyDescriptor: (_, name) => Object.getOwnPropertyDescriptor(loaded(), name),
  set: (_, name, value) => Reflect.set(loaded(), name, String(value)),
  deleteProperty: (_, name) => Reflect.deleteProperty(loaded(), name),
});
globalThis.process ??= {
  env,
  argv: [],
  nextTick: (callback, ...args) => queueMicrotask(() => callback(...args)),
};
globalThis.global ??= globalThis;

function describe(error) {
  if (!(error instanceof Error)) {
    return error === 'out of memory' ? 'Error: out of memory' : `Uncaught ${typeof error}: ${String(error)}`;
  }
  const missing = /^(\w+) is not defined$/.exec(error.message)?.[1];
  const hint = MISSING[missing] ? ` (the js lane does not have it: ${MISSING[missing]})` : '';
  const cause = error.cause === undefined ? '' : `\nCaused by ${describe(error.cause)}`;
  const stack = (error.stack ?? '').split('\n', FRAMES).join('\n');
  return `${error.name}: ${error.message}${hint}\n${stack}`.trimEnd() + cause;
}

// The host turns this into the platform's answer before the response began, and cuts the connection after.
export function fail(error) {
  console.error(describe(error));
  exit({ tag: 'err' });
}

const Native = Response;
let request = null;

// StarlingMonkey ends a body whose stream fails as if it were complete; this makes it a failure.
function guarded(stream) {
  const reader = stream.getReader();
  return new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (done) controller.close();
        else controller.enqueue(value);
      } catch (error) {
        fail(error);
      }
    },
    cancel: (reason) => reader.cancel(reason),
  }, { highWaterMark: 0 });
}

globalThis.Response = new Proxy(Native, {
  construct(target, args, newTarget) {
    // The request's own body goes back out without passing through here.
    if (args[0] instanceof ReadableStream && args[0] !== request?.body) args[0] = guarded(args[0]);
    return Reflect.construct(target, args, newTarget === globalThis.Response ? target : newTarget);
  },
});

export function check(app, entry) {
  if (typeof app?.fetch !== 'function') {
    throw new TypeError(
      `${entry}: the default export must be an object with a fetch method: ` +
      'export default { async fetch(request) { return new Response("hello"); } }',
    );
  }
  return app;
}

// `load` returns the user's default export and the name of its file.
export function serve(load, begin) {
  addEventListener('fetch', (event) => {
    event.respondWith((async () => {
      try {
        begin();
        const { app, entry } = load();
        answering = true;
        check(app, entry);
        request = event.request;
        const context = { waitUntil: (promise) => event.waitUntil(promise), passThroughOnException() {} };
        const response = await app.fetch(request, env, context);
        if (!(response instanceof Native)) {
          throw new TypeError(`${entry}: fetch() returned ${response === null ? 'null' : typeof response}, not a Response`);
        }
        return response;
      } catch (error) {
        fail(error);
      }
    })());
  });
}
