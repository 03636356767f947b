// Response and request bodies as the Fetch standard defines them, where the engine differs:
//
// - A response without an own content-length has one in `headers`, which is wrong for another body.
// - clone() and Response.error() are missing.
// - A body whose stream fails ends as if it were complete.
// - Compressed responses of fetch() are not decoded.
import { svcDefineReading, svcWasUsed } from './body.js';
import { compile, define, defineGetter } from './define.js';
import { svcFail } from './failure.js';
import { svcBody } from './form_data.js';
import { LARGE, svcReserve } from './memory.js';
import { checkFields, checkText } from './texts.js';

const NativeResponse = Response;
const { get: nativeHeaders } = Object.getOwnPropertyDescriptor(NativeResponse.prototype, 'headers');

/** Responses whose `headers` still have the content-length that the engine added. */
const measured = new WeakSet();
/** Content-lengths that were removed from `headers`, by response. */
const lengths = new WeakMap();
/** After clone(): the native response that has the body of a response. */
const bodies = new WeakMap();
const errors = new WeakSet();
/** Responses with a stream of JavaScript as body. */
const streamed = new WeakSet();
/** Responses of fetch() with a compressed body that was not read yet. */
const compressed = new WeakMap();
/** Headers of responses whose body was decoded; those of the engine are immutable. */
const decodedHeaders = new WeakMap();
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

let incoming = null;

/** Pass the body of this request on to a response as it is. */
export function svcReceive(request) {
  incoming = request;
}

function guarded(stream) {
  const reader = stream.getReader();
  return new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (done) return controller.close();
        if (!(value instanceof Uint8Array)) {
          throw new TypeError(`a chunk of the response body is a ${typeof value}, not a Uint8Array: use TextEncoder`);
        }
        controller.enqueue(value);
      } catch (error) {
        svcFail(error);
      }
    },
    cancel: (reason) => reader.cancel(reason),
  }, { highWaterMark: 0 });
}

/** Return whether the headers of a response's options include a content-length. */
function hasLength(headers) {
  if (!headers) return false;
  if (headers instanceof Headers) return headers.has('content-length');
  const names = headers[Symbol.iterator] ? Array.from(headers, ([name]) => name) : Object.keys(headers);
  return names.some((name) => String(name).toLowerCase() === 'content-length');
}

// The engine compiles a regular expression at its first use, so it is skipped without a text.
function checkStatusText(text) {
  if (text && !/^[\t\x20-\x7e\x80-\xff]*$/.test(text)) throw new TypeError('Response: statusText is not a reason phrase');
}

const handler = {
  construct(target, args, newTarget) {
    const stream = args[0] instanceof ReadableStream;
    checkStatusText(args[1]?.statusText);
    if (args[0] instanceof FormData) args[0] = svcBody(args[0]);
    if (args[0]?.byteLength >= LARGE) svcReserve('Response', args[0].byteLength);
    if (args[1]?.headers) checkFields(args[1].headers);
    const response = Reflect.construct(target, args, newTarget === globalThis.Response ? target : newTarget);
    if (stream && args[0] !== incoming?.body) streamed.add(response);
    if (!stream && !hasLength(args[1]?.headers)) measured.add(response);
    return response;
  },
};
globalThis.Response = new Proxy(NativeResponse, handler);

const { prototype } = NativeResponse;
prototype.constructor = globalThis.Response;

/** Return the native response that has the decoded body of a response. */
function readable(response) {
  const format = compressed.get(response);
  if (format) {
    compressed.delete(response);
    const headers = new Headers(response.headers), { body } = response;
    headers.delete('content-encoding');
    headers.delete('content-length');
    decodedHeaders.set(response, headers);
    if (body) bodies.set(response, new NativeResponse(body.pipeThrough(new DecompressionStream(format))));
  }
  return bodies.get(response) ?? response;
}

/** Return a response of the engine's fetch(), which decodes its body when it is read. */
export function svcFetched(response) {
  const format = formatOf(nativeHeaders.call(response).get('content-encoding'));
  if (format) compressed.set(response, format);
  return response;
}

defineGetter(prototype, 'headers', function () {
  const headers = decodedHeaders.get(this) ?? nativeHeaders.call(this);
  if (measured.delete(this)) {
    const length = headers.get('content-length');
    if (length !== null) {
      lengths.set(this, length);
      headers.delete('content-length');
    }
  }
  return headers;
});
const { get: nativeBody } = Object.getOwnPropertyDescriptor(prototype, 'body');
const { get: nativeBodyUsed } = Object.getOwnPropertyDescriptor(prototype, 'bodyUsed');
defineGetter(prototype, 'body', function () { return nativeBody.call(readable(this)); });

function bodyUsed() {
  const response = bodies.get(this) ?? this;
  return nativeBodyUsed.call(response) || svcWasUsed(response, nativeBody);
}
defineGetter(prototype, 'bodyUsed', bodyUsed);
svcDefineReading(prototype, (response) => {
  if (readable(response) !== response) return null;
  return lengths.get(response) ?? nativeHeaders.call(response).get('content-length');
});

function clone() {
  if (this.bodyUsed || this.body?.locked) throw new TypeError('clone(): the body is already used');
  if (errors.has(this)) return Response.error();
  const { status, statusText, headers, body, type, url, redirected } = this;
  const [own, other] = body ? body.tee() : [null, null];
  if (body) bodies.set(this, new NativeResponse(own));
  const response = new NativeResponse(other, { status, statusText, headers });
  if (lengths.has(this)) lengths.set(response, lengths.get(this));
  define(response, { type, url, redirected });
  return response;
}

define(prototype, { clone });
define(NativeResponse, {
  error() {
    const response = new NativeResponse(null);
    define(response, { type: 'error', status: 0, ok: false });
    errors.add(response);
    return response;
  },
});
for (const name of ['json', 'redirect']) {
  const native = NativeResponse[name];
  define(NativeResponse, {
    [name](...args) {
      checkText(`Response.${name}`, args[0]);
      const response = native.apply(NativeResponse, args);
      if (!hasLength(args[1]?.headers)) measured.add(response);
      return response;
    },
  });
}

/** Return the native response to send for the one that a handler returned, or undefined if it is not one. */
export function svcSendable(response) {
  if (!(response instanceof NativeResponse)) return undefined;
  if (errors.has(response)) throw new TypeError('fetch() returned Response.error()');
  const length = lengths.get(response), replaced = bodies.get(response);
  if (length !== undefined && !response.headers.has('content-length')) response.headers.set('content-length', length);
  if (!replaced && !streamed.has(response)) return response;
  const { status, statusText, headers } = response, body = nativeBody.call(replaced ?? response);
  return new NativeResponse(body && guarded(body), { status, statusText, headers });
}

compile(handler.construct, checkStatusText, hasLength, bodyUsed);
