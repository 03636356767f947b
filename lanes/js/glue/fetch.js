// fetch() as the Fetch standard defines it, where the engine differs: options of requests, redirects, data: URLs
// and errors.
import { define, defineGetter } from './define.js';
import { svcFetched } from './response.js';

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
const REDIRECT_MODES = ['follow', 'error', 'manual'];

const nativeFetch = fetch;
const NativeRequest = Request;
/** Options of requests that the engine does not store. */
const options = new WeakMap();

function optionsOf(input, init) {
  const inherited = input instanceof NativeRequest ? options.get(input) : undefined;
  const names = Object.keys(OPTIONS).filter((name) => init?.[name] !== undefined);
  if (!names.length) return inherited;
  const own = Object.fromEntries(names.map((name) => [name, init[name]]));
  if ('redirect' in own && !REDIRECT_MODES.includes(own.redirect)) {
    throw new TypeError(`fetch: redirect is ${JSON.stringify(own.redirect)}, not one of ${REDIRECT_MODES.join(', ')}`);
  }
  return { ...inherited, ...own };
}

globalThis.Request = new Proxy(NativeRequest, {
  construct(target, args, newTarget) {
    const request = Reflect.construct(target, args, newTarget === globalThis.Request ? target : newTarget);
    const own = optionsOf(args[0], args[1]);
    if (own) options.set(request, own);
    return request;
  },
});
NativeRequest.prototype.constructor = globalThis.Request;
for (const [name, initial] of Object.entries(OPTIONS)) {
  defineGetter(NativeRequest.prototype, name, function () { return options.get(this)?.[name] ?? initial; });
}

function parse(text, base, message) {
  try {
    return new URL(text, base);
  } catch (error) {
    throw new TypeError(`fetch: ${message}`, { cause: error });
  }
}

/** Return the response of a data: URL. */
function decoded(url) {
  const [, type, base64, data] = /^data:([^,]*?)(;\s*base64)?,([^#]*)/i.exec(url.href) ?? [];
  if (data === undefined) throw new TypeError('fetch: the data: URL has no comma');
  const text = decodeURIComponent(data.replace(/%(?![0-9a-f]{2})/gi, '%25'));
  const bytes = base64 ? Uint8Array.from(atob(text), (c) => c.charCodeAt(0)) : new TextEncoder().encode(text);
  const mediaType = type.startsWith(';') ? `text/plain${type}` : type || 'text/plain;charset=US-ASCII';
  const response = new Response(bytes, { headers: { 'content-type': mediaType } });
  define(response, { url: url.href });
  return response;
}

async function send(url, input, init) {
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new TypeError(`fetch: the scheme of ${url.href} is not http, https or data`);
  }
  try {
    return svcFetched(await nativeFetch(input, init));
  } catch (error) {
    const { aborted, reason } = init?.signal ?? input.signal ?? {};
    if (aborted) throw reason;
    if (error instanceof DOMException || error instanceof TypeError) throw error;
    throw new TypeError(`fetch failed: ${url.origin} did not answer, or egress in svc.toml does not allow it`, { cause: error });
  }
}

/** Return the request for the next location: its input and options. */
function redirected(status, url, next, input, init) {
  const source = input instanceof NativeRequest ? input : undefined;
  const headers = new Headers(init?.headers ?? source?.headers);
  let method = (init?.method ?? source?.method ?? 'GET').toUpperCase();
  let body = init?.body;
  if ((status === 303 && method !== 'HEAD') || (status < 303 && method === 'POST')) {
    method = 'GET';
    body = undefined;
    for (const name of BODY_HEADERS) headers.delete(name);
  } else if (body instanceof ReadableStream || (body === undefined && source?.body)) {
    throw new TypeError(`fetch: ${url.href} redirected a streamed body, which cannot be sent twice`);
  }
  if (next.origin !== url.origin) for (const name of CREDENTIALS) headers.delete(name);
  const signal = init?.signal ?? source?.signal;
  return { method, headers, ...(body === undefined ? {} : { body }), ...(signal ? { signal } : {}) };
}

async function follow(input, init) {
  const text = input instanceof NativeRequest ? input.url : String(input);
  let url = parse(text, undefined, `${JSON.stringify(text)} is not an absolute URL`);
  if (url.protocol === 'data:') return decoded(url);
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
