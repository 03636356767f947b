// Response and request bodies as the Fetch standard defines them, where the engine differs:
//
// - A response without an own content-length has one in `headers`, which is wrong for another body.
// - clone() and Response.error() are missing.
// - A body whose stream fails ends as if it were complete.
// - Compressed responses of fetch() are not decoded.
import { svcBlobHeaders, svcIsLargeBlob } from './blob.js';
import { svcDefineReading, svcWasUsed } from './body.js';
import { svcWhenGone } from './client.js';
import { svcCurrent } from './current.js';
import { compile, define, defineGetter } from './define.js';
import { svcFail } from './failure.js';
import { svcBody } from './form_data.js';
import { LARGE, svcReserve } from './memory.js';
import { checkFields, checkText } from './texts.js';

const NativeResponse = Response;
const { get: nativeHeaders } = Object.getOwnPropertyDescriptor(NativeResponse.prototype, 'headers');

/**
 * What the engine does not know of a response, by response. Most have nothing.
 *
 * - `hasOwnLength`: a content-length in `headers` is not one that the engine added.
 * - `length`: the content-length that was removed from `headers`.
 * - `message`: the native response that has the body, after clone() and for a decoded body.
 * - `isError`: it is from Response.error().
 * - `isStreamed`: its body is a stream of JavaScript.
 * - `format`: its body, from fetch(), is compressed and was not read yet.
 * - `headers`: those of a decoded body; the engine's are immutable.
 */
const states = new WeakMap();

function stateOf(response) {
  const known = states.get(response);
  if (known) return known;
  const state = {};
  states.set(response, state);
  return state;
}

const FORMATS = { br: 'brotli', deflate: 'deflate', gzip: 'gzip', 'x-gzip': 'gzip' };

/** Return the format of a content coding; undefined if the bundle cannot decode it. */
function formatOf(coding) {
  const format = FORMATS[coding?.trim().toLowerCase()];
  if (format !== 'brotli') return format;
  try {
    new DecompressionStream(format);
    return format;
  } catch {
    return undefined; // compat/features/brotli.js is not in the bundle.
  }
}

/** Return a value of accept-encoding without the codings that fetch() cannot decode. */
export function svcAcceptable(text) {
  const known = ([coding]) => coding === 'identity' || formatOf(coding);
  return text.split(',').filter((item) => known(item.trim().toLowerCase().split(/\s*;/))).join(',').trim() || 'identity';
}

function guarded(stream) {
  const reader = stream.getReader();
  let gone = false;
  svcWhenGone((reason) => {
    gone = true;
    return reader.cancel(reason);
  }, '/idle');
  return new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        // The run ends with the response: cleanup may take some turns more.
        if (done) return gone ? new Promise(() => {}) : controller.close();
        if (!(value instanceof Uint8Array)) {
          throw new TypeError(`a chunk of the response body is a ${typeof value}, not a Uint8Array: use TextEncoder`);
        }
        controller.enqueue(value.slice()); // the engine takes the bytes away
      } catch (error) {
        svcFail(error);
      }
    },
    cancel: (reason) => reader.cancel(reason),
  }, { highWaterMark: 0 });
}

/** Return whether headers of a response's options include a content-length. */
function hasLength(headers) {
  if (headers instanceof Headers) return headers.has('content-length');
  const names = headers[Symbol.iterator] ? Array.from(headers, ([name]) => name) : Object.keys(headers);
  return names.some((name) => String(name).toLowerCase() === 'content-length');
}

// The engine compiles a regular expression at its first use, so it is skipped without a text.
function checkStatusText(text) {
  if (text && !/^[\t\x20-\x7e\x80-\xff]*$/.test(text)) throw new TypeError('Response: statusText is not a reason phrase');
}

const NO_BODY = [101, 103, 204, 205, 304];

function checkInit(body, { status, statusText }) {
  checkStatusText(statusText);
  // The message of the engine does not name the status.
  if (status !== undefined && body !== undefined && body !== null && NO_BODY.includes(status)) {
    throw new TypeError(`Response: a response with the status ${status} has no body`);
  }
}

/** Replace a body in arguments of Response that the engine does not take, and return the state of the response. */
function prepared(args) {
  if (args[0] instanceof FormData) args[0] = svcBody(args[0]);
  const [body, init] = args;
  if (svcIsLargeBlob(body)) {
    args[0] = body.stream();
    args[1] = { ...init, headers: svcBlobHeaders(init?.headers, body, ['content-type']) };
    return { isStreamed: true, length: String(body.size) };
  }
  if (body.byteLength >= LARGE) svcReserve('Response', body.byteLength);
  // The body of the incoming request is passed on as it is.
  return body instanceof ReadableStream && body !== svcCurrent.request?.body ? { isStreamed: true } : undefined;
}

// Most responses are a text, for which the engine does all but the content-length. Each call takes time here.
const handler = {
  construct(target, args, newTarget) {
    const body = args[0], state = typeof body === 'object' && body ? prepared(args) : undefined, init = args[1];
    if (init) checkInit(body, init);
    const headers = init?.headers;
    if (headers) checkFields(headers);
    const response = construct(target, args, newTarget === replaced ? target : newTarget);
    if (state) states.set(response, state);
    if (headers && hasLength(headers)) stateOf(response).hasOwnLength = true;
    return response;
  },
};
const { construct } = Reflect;
const replaced = new Proxy(NativeResponse, handler);
globalThis.Response = replaced;

const { prototype } = NativeResponse;
prototype.constructor = replaced;

/** Return the native response that has the decoded body of a response. */
function readable(response) {
  const state = states.get(response);
  if (!state) return response;
  const { format } = state;
  if (format) {
    state.format = undefined;
    const headers = new Headers(response.headers), { body } = response;
    headers.delete('content-encoding');
    headers.delete('content-length');
    state.headers = headers;
    if (body) state.message = new NativeResponse(body.pipeThrough(new DecompressionStream(format)));
  }
  return state.message ?? response;
}

/** Return a response of the engine's fetch(), which decodes its body when it is read. */
export function svcFetched(response) {
  states.set(response, { hasOwnLength: true, format: formatOf(nativeHeaders.call(response).get('content-encoding')) });
  return response;
}

defineGetter(prototype, 'headers', function () {
  const own = nativeHeaders.call(this), state = stateOf(this), headers = state.headers ?? own;
  if (!state.hasOwnLength) {
    state.hasOwnLength = true;
    const length = headers.get('content-length');
    if (length !== null) {
      state.length = length;
      headers.delete('content-length');
    }
  }
  return headers;
});
const { get: nativeBody } = Object.getOwnPropertyDescriptor(prototype, 'body');
const { get: nativeBodyUsed } = Object.getOwnPropertyDescriptor(prototype, 'bodyUsed');
defineGetter(prototype, 'body', function () { return nativeBody.call(readable(this)); });

function isUsed(message) {
  return nativeBodyUsed.call(message) || svcWasUsed(message, nativeBody);
}
defineGetter(prototype, 'bodyUsed', function () { return isUsed(states.get(this)?.message ?? this); });
svcDefineReading(prototype, (response) => {
  if (readable(response) !== response) return null;
  return states.get(response)?.length ?? nativeHeaders.call(response).get('content-length');
});

function clone() {
  if (this.bodyUsed || this.body?.locked) throw new TypeError('clone(): the body is already used');
  if (states.get(this)?.isError) return Response.error();
  const { status, statusText, headers, body, type, url, redirected } = this;
  const [own, other] = body ? body.tee() : [null, null];
  const state = stateOf(this), response = new NativeResponse(other, { status, statusText, headers });
  if (body) state.message = new NativeResponse(own);
  states.set(response, { hasOwnLength: true, length: state.length });
  define(response, { type, url, redirected });
  return response;
}

define(prototype, { clone });
define(NativeResponse, {
  error() {
    const response = new NativeResponse(null);
    define(response, { type: 'error', status: 0, ok: false });
    states.set(response, { hasOwnLength: true, isError: true });
    return response;
  },
});
for (const name of ['json', 'redirect']) {
  const native = NativeResponse[name];
  define(NativeResponse, {
    [name](...args) {
      checkText(`Response.${name}`, args[0]);
      if (name === 'json' && args[1]) checkInit(args[0], args[1]);
      const response = native.apply(NativeResponse, args), headers = args[1]?.headers;
      if (headers && hasLength(headers)) stateOf(response).hasOwnLength = true;
      return response;
    },
  });
}

/** Return the native response to send for the one that the handler of `entry` returned. Throws TypeError. */
export function svcSendable(response, entry) {
  if (!(response instanceof NativeResponse)) {
    throw new TypeError(`${entry}: fetch() returned ${response === null ? 'null' : typeof response}, not a Response`);
  }
  const state = states.get(response), message = state?.message ?? response;
  if (isUsed(message)) throw new TypeError(`${entry}: fetch() returned a Response whose body was read already`);
  if (!state) return response;
  const { isError, isStreamed, length } = state;
  if (isError) throw new TypeError(`${entry}: fetch() returned Response.error()`);
  if (length !== undefined && !response.headers.has('content-length')) response.headers.set('content-length', length);
  if (message === response && !isStreamed) return response;
  const { status, statusText, headers } = response, body = nativeBody.call(message);
  return new NativeResponse(body && guarded(body), { status, statusText, headers });
}

compile(handler.construct, checkInit, checkStatusText, isUsed, prepared);
