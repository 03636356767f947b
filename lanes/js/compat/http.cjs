// node:http: a client on top of fetch(). Servers are lacking.
const { Readable, Writable } = require('./stream.cjs');
const { Buffer } = require('./buffer.cjs');

const METHODS = ['DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT', 'TRACE', 'CONNECT', 'COPY', 'LINK', 'LOCK', 'MKCOL', 'MOVE',
  'PROPFIND', 'PROPPATCH', 'PURGE', 'REPORT', 'SEARCH', 'UNLINK', 'UNLOCK'].sort();
const STATUS_CODES = {
  100: 'Continue', 101: 'Switching Protocols', 200: 'OK', 201: 'Created', 202: 'Accepted', 203: 'Non-Authoritative Information',
  204: 'No Content', 205: 'Reset Content', 206: 'Partial Content', 300: 'Multiple Choices', 301: 'Moved Permanently', 302: 'Found',
  303: 'See Other', 304: 'Not Modified', 307: 'Temporary Redirect', 308: 'Permanent Redirect', 400: 'Bad Request', 401: 'Unauthorized',
  402: 'Payment Required', 403: 'Forbidden', 404: 'Not Found', 405: 'Method Not Allowed', 406: 'Not Acceptable', 408: 'Request Timeout',
  409: 'Conflict', 410: 'Gone', 411: 'Length Required', 412: 'Precondition Failed', 413: 'Payload Too Large', 414: 'URI Too Long',
  415: 'Unsupported Media Type', 416: 'Range Not Satisfiable', 417: 'Expectation Failed', 422: 'Unprocessable Entity', 425: 'Too Early',
  426: 'Upgrade Required', 428: 'Precondition Required', 429: 'Too Many Requests', 500: 'Internal Server Error', 501: 'Not Implemented',
  502: 'Bad Gateway', 503: 'Service Unavailable', 504: 'Gateway Timeout',
};
/** Fields of a request that fetch() sets itself. */
const OWN = new Set(['connection', 'content-length', 'host', 'keep-alive', 'transfer-encoding']);

class IncomingMessage extends Readable {
  constructor(response) {
    super({ read: () => this._pull() });
    const fields = [...response.headers].filter(([name]) => name !== 'set-cookie');
    const cookies = response.headers.getSetCookie();
    this.statusCode = response.status;
    this.statusMessage = response.statusText || STATUS_CODES[response.status] || '';
    this.httpVersion = '1.1';
    this.headers = { ...Object.fromEntries(fields), ...(cookies.length ? { 'set-cookie': cookies } : {}) };
    this.rawHeaders = [...fields, ...cookies.map((cookie) => ['set-cookie', cookie])].flat();
    this.trailers = {};
    this.socket = this.connection = {};
    this._reader = response.body?.getReader();
  }
  async _pull() {
    try {
      const { done, value } = (await this._reader?.read()) ?? { done: true };
      this.complete = done;
      this.push(done ? null : Buffer.from(value.buffer, value.byteOffset, value.byteLength));
    } catch (error) {
      this.destroy(error);
    }
  }
  _destroy(error, done) {
    this._reader?.cancel(error).catch(() => {});
    done(error);
  }
  setTimeout() { return this; }
}

class ClientRequest extends Writable {
  constructor(url, options, answered) {
    super({ autoDestroy: false });  // The request has ended before its response arrives.
    this._url = url;
    this._chunks = [];
    this._abort = new AbortController();
    this.method = (options.method ?? 'GET').toUpperCase();
    this.path = url.pathname + url.search;
    this.host = url.hostname;
    this.protocol = url.protocol;
    this.socket = this.connection = {};
    const headers = new Headers();
    for (const [name, values] of Object.entries(options.headers ?? {})) for (const value of [values].flat()) headers.append(name, value);
    if (options.auth && !headers.has('authorization')) headers.set('authorization', `Basic ${Buffer.from(options.auth).toString('base64')}`);
    this._headers = headers;
    if (answered) this.once('response', answered);
    if (options.timeout) this.setTimeout(options.timeout);
    options.signal?.addEventListener('abort', () => this.destroy(options.signal.reason), { once: true });
  }
  setHeader(name, value) {
    this._headers.delete(name);
    for (const each of [value].flat()) this._headers.append(name, each);
    return this;
  }
  getHeader(name) { return this._headers.get(name) ?? undefined; }
  getHeaders() { return Object.fromEntries(this._headers); }
  getHeaderNames() { return [...this._headers.keys()]; }
  hasHeader(name) { return this._headers.has(name); }
  removeHeader(name) { this._headers.delete(name); }
  flushHeaders() {}
  setNoDelay() {}
  setSocketKeepAlive() {}
  setTimeout(ms, callback) {
    if (callback) this.once('timeout', callback);
    clearTimeout(this._timer);
    if (ms > 0) this._timer = setTimeout(() => this.emit('timeout'), ms);
    return this;
  }
  abort() { this.destroy(); }
  _write(chunk, encoding, done) {
    this._chunks.push(typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk);
    done();
  }
  _final(done) {
    done();
    this._send().catch((error) => this.destroy(Object.assign(error, { code: error.code ?? 'ECONNREFUSED' })));
  }
  async _send() {
    const headers = [...this._headers].filter(([name]) => !OWN.has(name));
    const body = this._chunks.length ? Buffer.concat(this._chunks) : undefined;
    const response = await fetch(this._url, { method: this.method, headers, body, redirect: 'manual', signal: this._abort.signal });
    clearTimeout(this._timer);
    const message = new IncomingMessage(response);
    // Without a listener nothing would read the body.
    if (!this.emit('response', message)) message.resume();
  }
  _destroy(error, done) {
    clearTimeout(this._timer);
    this._abort.abort(error);
    done(error);
  }
}

class Agent {
  constructor(options = {}) {
    this.options = options;
  }
  destroy() {}
}

function urlOf(scheme, { protocol = scheme, hostname, host, port, path = '/' }) {
  const name = hostname ?? host ?? 'localhost';
  return new URL(path, `${protocol}//${name}${port && !/:\d+$/.test(name) ? `:${port}` : ''}`);
}

/** Return the client of a scheme. */
function client(scheme) {
  function request(target, options, answered) {
    if (typeof options === 'function') [options, answered] = [undefined, options];
    const isUrl = typeof target === 'string' || target instanceof URL;
    const url = isUrl ? new URL(target) : urlOf(scheme, target);
    const own = { ...(isUrl ? {} : target), ...options };
    if (isUrl && (url.username || url.password)) own.auth ??= decodeURIComponent(`${url.username}:${url.password}`);
    url.username = url.password = '';
    return new ClientRequest(isUrl && options?.path ? new URL(options.path, url) : url, own, answered);
  }
  return {
    Agent, ClientRequest, IncomingMessage, METHODS, STATUS_CODES, request,
    globalAgent: new Agent(),
    maxHeaderSize: 16384,
    get(...values) {
      const sent = request(...values);
      sent.end();
      return sent;
    },
  };
}

module.exports = { ...client('http:'), client };
