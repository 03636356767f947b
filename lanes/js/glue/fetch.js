// fetch() as the Fetch standard defines it, where the engine differs: options of requests, redirects, data: URLs
// and errors.
import { svcBlobHeaders, svcIsLargeBlob } from './blob.js';
import { svcDefineReading, svcWasUsed } from './body.js';
import { svcClientSignal } from './client.js';
import { svcCurrent } from './current.js';
import { define, defineGetter } from './define.js';
import { svcFail } from './failure.js';
import { svcBody } from './form_data.js';
import { isLack, svcReserve } from './memory.js';
import { svcAcceptable, svcFetched } from './response.js';
import { checkFields } from './texts.js';

const MAX_REDIRECTS = 20;
const REDIRECTS = new Set([301, 302, 303, 307, 308]);
const CREDENTIALS = ['authorization', 'cookie', 'proxy-authorization'];
const BODY_HEADERS = ['content-encoding', 'content-language', 'content-length', 'content-location', 'content-type'];
const OPTIONS = {
  cache: 'default',
  credentials: 'same-origin',
  integrity: '',
  keepalive: false,
  mode: 'cors',
  redirect: 'follow',
  referrer: 'about:client',
  referrerPolicy: '',
};
const MODES = {
  cache: ['default', 'no-store', 'reload', 'no-cache', 'force-cache', 'only-if-cached'],
  duplex: ['half'],
  credentials: ['omit', 'same-origin', 'include'],
  mode: ['cors', 'no-cors', 'same-origin'],
  priority: ['high', 'low', 'auto'],
  redirect: ['follow', 'error', 'manual'],
  referrerPolicy: [
    '', 'no-referrer', 'no-referrer-when-downgrade', 'origin', 'origin-when-cross-origin', 'same-origin', 'strict-origin',
    'strict-origin-when-cross-origin', 'unsafe-url',
  ],
};
/** Attributes of requests that are constant outside of a browser. */
const CONSTANTS = { destination: '', duplex: 'half', isHistoryNavigation: false, isReloadNavigation: false };
const METHODS = /^(?!(?:connect|trace|track)$)[!#$%&'*+.^`|~\w-]+$/i;

const nativeFetch = fetch;
const NativeRequest = Request;
/** Options of requests that the engine does not store. */
const options = new WeakMap();

function optionsOf(input, init) {
  const inherited = input instanceof NativeRequest ? storedOptions(input) : undefined;
  if (!init) return inherited;
  for (const [name, values] of Object.entries(MODES)) {
    if (init[name] !== undefined && !values.includes(String(init[name]))) {
      throw new TypeError(`fetch: ${name} is ${JSON.stringify(init[name])}, not one of ${values.join(', ')}`);
    }
  }
  const names = Object.keys(OPTIONS).filter((name) => init[name] !== undefined);
  if (!names.length) return inherited;
  const own = Object.fromEntries(names.map((name) => [name, init[name]]));
  return { ...inherited, ...own };
}

/** Signals of requests: reading one that was not set ends the program in the engine. */
const signals = new WeakMap();
/** Requests that were made of the request of the client, whose signal they share. */
const forwarded = new WeakSet();

function isOfClient(request) {
  return request === svcCurrent.request || forwarded.has(request);
}

/** Bodies that can be sent again after a redirect, by request. */
const repeatable = new WeakMap();

/** Redirects of the request that the handler receives are passed on, as in Cloudflare Workers. */
const INCOMING = { redirect: 'manual' };

function storedOptions(request) {
  return request === svcCurrent.request ? INCOMING : options.get(request);
}

/** Return options with a stream instead of a large blob. */
function streamed(init, input = undefined) {
  const own = init.headers ?? (input instanceof NativeRequest ? input.headers : undefined);
  return { ...init, headers: svcBlobHeaders(own, init.body), body: init.body.stream(), duplex: 'half' };
}

globalThis.Request = new Proxy(NativeRequest, {
  construct(target, args, newTarget) {
    if (!(args[0] instanceof NativeRequest)) args[0] = absolute(String(args[0])).href;
    if (args[1]?.body instanceof FormData) args[1] = { ...args[1], body: svcBody(args[1].body) };
    svcReserve('Request', args[1]?.body?.byteLength ?? 0);
    if (args[1]?.headers) checkFields(args[1].headers);
    const source = args[1]?.body ?? repeatable.get(args[0]);
    if (svcIsLargeBlob(args[1]?.body)) args[1] = streamed(args[1], args[0]);
    const request = Reflect.construct(target, args, newTarget === globalThis.Request ? target : newTarget);
    if (!METHODS.test(request.method)) throw new TypeError(`fetch: the method ${request.method} is forbidden`);
    if (request.url.includes('@')) refuseCredentials(new URL(request.url));
    const own = optionsOf(args[0], args[1]);
    if (own) options.set(request, own);
    const signal = args[1]?.signal ?? signals.get(args[0]);
    if (signal) signals.set(request, signal);
    else if (isOfClient(args[0]) && args[1]?.signal === undefined) forwarded.add(request);
    if (args[1]?.body instanceof ReadableStream || streaming.has(args[0])) streaming.add(request);
    if (source && !(source instanceof ReadableStream)) repeatable.set(request, source);
    return request;
  },
});
defineGetter(NativeRequest.prototype, 'signal', function () {
  if (!signals.has(this)) signals.set(this, isOfClient(this) ? svcClientSignal() : new AbortController().signal);
  return signals.get(this);
});
NativeRequest.prototype.constructor = globalThis.Request;
const { get: nativeBody } = Object.getOwnPropertyDescriptor(NativeRequest.prototype, 'body');
const { get: nativeBodyUsed } = Object.getOwnPropertyDescriptor(NativeRequest.prototype, 'bodyUsed');
defineGetter(NativeRequest.prototype, 'bodyUsed', function () {
  return nativeBodyUsed.call(this) || svcWasUsed(this, nativeBody);
});
svcDefineReading(NativeRequest.prototype, (request) => request.headers.get('content-length'));
for (const [name, initial] of Object.entries(OPTIONS)) {
  defineGetter(NativeRequest.prototype, name, function () { return storedOptions(this)?.[name] ?? initial; });
}

for (const [name, value] of Object.entries(CONSTANTS)) defineGetter(NativeRequest.prototype, name, () => value);

function refuseCredentials({ username, password, host }) {
  if (username || password) throw new TypeError(`fetch: the URL of ${host} has a user name or password; send a header`);
}

function parse(text, base, message) {
  try {
    return new URL(text, base);
  } catch (error) {
    throw new TypeError(`fetch: ${message}`, { cause: error });
  }
}

function absolute(text) {
  return parse(text, undefined, `${JSON.stringify(text)} is not an absolute URL`);
}

/** Return the bytes of a percent-encoded text. */
function percentDecoded(text) {
  const bytes = new TextEncoder().encode(text);
  let length = 0;
  for (let at = 0; at < bytes.length; at++) {
    const digits = bytes[at] === 0x25 ? String.fromCharCode(bytes[at + 1], bytes[at + 2]) : '';
    const escaped = /^[\da-f]{2}$/i.test(digits);
    bytes[length++] = escaped ? parseInt(digits, 16) : bytes[at];
    if (escaped) at += 2;
  }
  return bytes.subarray(0, length);
}

/** Return a media type as a data: URL means it. */
function mediaTypeOf(text) {
  const [essence, ...parameters] = text.trim().split(';').map((part) => part.trim());
  const valid = /^[!#$%&'*+.^`|~\w-]+\/[!#$%&'*+.^`|~\w-]+$/.test(essence);
  if (essence ? !valid : !parameters.length) return 'text/plain;charset=US-ASCII';
  const pairs = parameters.filter((part) => /^[^=]+=./.test(part)).map((part) => {
    const at = part.indexOf('=');
    return part.slice(0, at).toLowerCase() + part.slice(at);
  });
  return [essence.toLowerCase() || 'text/plain', ...pairs].join(';');
}

/** Return the response of a data: URL. */
function decoded(url) {
  const text = url.href.slice('data:'.length).replace(/#.*$/s, ''), comma = text.indexOf(',');
  if (comma < 0) throw new TypeError('fetch: the data: URL has no comma');
  const type = text.slice(0, comma), base64 = /; *base64 *$/i.exec(type);
  let bytes = percentDecoded(text.slice(comma + 1));
  if (base64) {
    try {
      bytes = Uint8Array.from(atob(new TextDecoder().decode(bytes)), (c) => c.charCodeAt(0));
    } catch (error) {
      throw new TypeError('fetch: the data: URL is not valid base64', { cause: error });
    }
  }
  const mediaType = mediaTypeOf(base64 ? type.slice(0, base64.index) : type);
  const response = new Response(bytes, { headers: { 'content-type': mediaType } });
  define(response, { url: url.href });
  return response;
}

/** Requests whose body is a stream of JavaScript. */
const streaming = new WeakSet();

/**
 * Return a stream with the chunks of another, and a promise that rejects if the other fails before the response.
 * A stream that fails, or has a chunk that is not bytes, ends the program in the engine.
 */
function watched(stream) {
  const reader = stream.getReader();
  const failure = { fail: undefined, promise: undefined };
  failure.promise = new Promise((_, reject) => (failure.fail = reject));
  const body = new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (done) return controller.close();
        if (!(value instanceof Uint8Array)) throw new TypeError(`a chunk is a ${typeof value}, not a Uint8Array`);
        controller.enqueue(value.slice()); // the engine takes the bytes away
      } catch (error) {
        failure.fail(new TypeError(`fetch: the body of the request failed: ${error?.message ?? error}`, { cause: error }));
        await new Promise(() => {}); // A body that neither ends nor fails is cut at the end of the request.
      }
    },
    cancel: (reason) => reader.cancel(reason),
  }, { highWaterMark: 0 });
  return { body, failure };
}

async function sent(input, init) {
  if (init?.body instanceof FormData) init = { ...init, body: svcBody(init.body) };
  if (svcIsLargeBlob(init?.body)) init = streamed(init, input);
  svcReserve('fetch', init?.body?.byteLength ?? 0);
  const stream = init?.body instanceof ReadableStream ? init.body : streaming.has(input) ? input.body : null;
  if (!stream || stream === svcCurrent.request?.body) return nativeFetch(input, init);
  const { body, failure } = watched(stream);
  const response = await Promise.race([nativeFetch(input, { ...init, body, duplex: 'half' }), failure.promise]);
  failure.fail = svcFail;
  return response;
}

/** Return the options of a request whose accept-encoding names only what fetch() decodes. */
function decodable(input, init) {
  const source = init?.headers ?? (input instanceof NativeRequest ? input.headers : undefined);
  if (!source) return init;
  const headers = new Headers(source), accepted = headers.get('accept-encoding');
  if (accepted !== null) headers.set('accept-encoding', svcAcceptable(accepted));
  else if (!init?.headers) return init;
  return { ...init, headers };
}

/** Explanations of error codes of the host. */
const REASONS = {
  'HTTP-request-denied': ': egress in svc.toml does not allow it',
  'connection-limit-reached': ': too many calls at once, or a quota of the project is used up',
  'destination-IP-prohibited': ': its address is not public, and egress in svc.toml does not have it',
};
/** Promises of the error codes of failed calls, by origin; the errors of the engine lack them. */
const codes = new Map();

async function askCode(origin) {
  const { headers } = await nativeFetch(`http://client.svc.internal/failure?${origin}`);
  codes.delete(origin);
  return headers.get('code') || 'it did not answer';
}

async function send(url, input, init) {
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new TypeError(`fetch: the scheme of ${url.href} is not http, https or data`);
  }
  try {
    return svcFetched(await sent(input, decodable(input, init)));
  } catch (error) {
    const { aborted, reason } = init?.signal ?? signals.get(input) ?? {};
    if (aborted) throw reason;
    const isKnown = error instanceof TypeError && !error.message.startsWith('NetworkError');
    if (error instanceof DOMException || isKnown || isLack(error)) throw error;
    if (!codes.has(url.origin)) codes.set(url.origin, askCode(url.origin));
    const code = await codes.get(url.origin);
    throw new TypeError(`fetch failed: ${url.origin}: ${code}${REASONS[code] ?? ''}`, { cause: error });
  }
}

/** Return the request for the next location: its input and options. */
function redirected(status, url, next, input, init) {
  const source = input instanceof NativeRequest ? input : undefined;
  const headers = new Headers(init?.headers ?? source?.headers);
  let method = (init?.method ?? source?.method ?? 'GET').toUpperCase();
  let body = init?.body ?? repeatable.get(source);
  if ((status === 303 && method !== 'HEAD') || (status < 303 && method === 'POST')) {
    method = 'GET';
    body = undefined;
    for (const name of BODY_HEADERS) headers.delete(name);
  } else if (body instanceof ReadableStream || (body === undefined && source?.body)) {
    throw new TypeError(`fetch: ${url.href} redirected a streamed body, which cannot be sent twice`);
  }
  if (next.origin !== url.origin) for (const name of CREDENTIALS) headers.delete(name);
  const signal = init?.signal ?? signals.get(source);
  return { method, headers, ...(body === undefined ? {} : { body }), ...(signal ? { signal } : {}) };
}

async function follow(input, init) {
  const text = input instanceof NativeRequest ? input.url : String(input);
  let url = absolute(text);
  if (url.protocol === 'data:') return decoded(url);
  refuseCredentials(url);
  const mode = optionsOf(input, init)?.redirect ?? OPTIONS.redirect;
  for (let count = 0; ; count++) {
    const response = await send(url, input, init);
    const location = REDIRECTS.has(response.status) ? response.headers.get('location') : null;
    if (location === null || mode === 'manual') {
      if (count) define(response, { redirected: true, url: url.href });
      return response;
    }
    if (mode === 'error') throw new TypeError(`fetch: ${url.href} redirects, and the request has redirect: 'error'`);
    if (count === MAX_REDIRECTS) throw new TypeError(`fetch: more than ${MAX_REDIRECTS} redirects, the last from ${url.href}`);
    const next = parse(location, url, `${url.href} redirects to ${JSON.stringify(location)}, which is not a URL`);
    init = redirected(response.status, url, next, input, init);
    await response.body?.cancel();
    next.hash ||= url.hash;
    input = url = next;
  }
}

define(globalThis, {
  async fetch(input, init) { return follow(input, init); },
});
