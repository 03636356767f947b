// `files` of '@svc/guest': the files of the project with the interface of Cloudflare's R2 buckets. Types and
// documentation are in svc-guest.d.ts.
const FIELDS = {
  contentType: 'content-type',
  contentDisposition: 'content-disposition',
  contentEncoding: 'content-encoding',
  contentLanguage: 'content-language',
  cacheControl: 'cache-control',
  cacheExpiry: 'expires',
};
const CONDITIONS = { etagMatches: 'if-match', etagDoesNotMatch: 'if-none-match' };
const META = 'x-svc-meta';
const UNITS = { s: 1, m: 60, h: 3600, d: 86400 };

export class FilesError extends Error {
  constructor(status, problem) {
    const { code = '', detail = `the response has status ${status}`, hint } = problem;
    super(hint ? `${detail}. ${hint}` : detail);
    Object.assign(this, { name: 'FilesError', status, code, hint });
  }
}

let endpoint;
async function ask(path, init, ...allowed) {
  endpoint ||= globalThis.process?.env?.SVC_FILES_ENDPOINT;
  if (!endpoint) throw new Error('SVC_FILES_ENDPOINT is not set: this program is not hosted by svc');
  const answer = await fetch(`${endpoint}/v1/${path}`, init);
  if (answer.ok || allowed.includes(answer.status)) return answer;
  throw new FilesError(answer.status, await answer.json().catch(() => ({})));
}

// A URL would resolve these two, whatever their encoding.
function pathOf(key) {
  const text = String(key);
  if (text === '.' || text === '..') throw new FilesError(400, { code: 'bad-key', detail: `the key '${text}' is not valid: it is \`.\` or \`..\`` });
  return `files/${encodeURIComponent(text)}`;
}

const quoted = (tag) => (/^(?:W\/)?"|^\*$/.test(tag) ? tag : `"${tag}"`);

function conditions(headers, onlyIf = {}) {
  if (onlyIf instanceof Headers) {
    for (const name of ['if-match', 'if-none-match', 'if-range']) {
      if (onlyIf.has(name)) headers.set(name, onlyIf.get(name));
    }
    return headers;
  }
  for (const [name, tags] of Object.entries(onlyIf)) {
    if (!Object.hasOwn(CONDITIONS, name)) throw new TypeError(`there is no condition ${name}; available: ${Object.keys(CONDITIONS).join(', ')}`);
    headers.set(CONDITIONS[name], [tags].flat().map(quoted).join(', '));
  }
  return headers;
}

function rangeOf(range) {
  if (range instanceof Headers) return range.get('range');
  const { offset, length, suffix } = range;
  if (suffix !== undefined) return `bytes=-${suffix}`;
  return `bytes=${offset ?? 0}-${length === undefined ? '' : (offset ?? 0) + length - 1}`;
}

class FileObject {
  constructor({ key, size, etag, modified, fields, metadata }) {
    const httpMetadata = {};
    for (const [name, field] of Object.entries(FIELDS)) if (fields[field] !== undefined) httpMetadata[name] = fields[field];
    Object.assign(this, { key, size, etag, httpEtag: `"${etag}"`, uploaded: new Date(modified), httpMetadata, customMetadata: metadata });
  }

  writeHttpMetadata(headers) {
    for (const [name, value] of Object.entries(this.httpMetadata)) headers.set(FIELDS[name], value);
  }
}

class FileBody extends FileObject {
  #response;

  constructor(description, response, range) {
    super(description);
    this.#response = response;
    this.range = range;
  }

  get body() { return this.#response.body; }
  get bodyUsed() { return this.#response.bodyUsed; }
  arrayBuffer() { return this.#response.arrayBuffer(); }
  bytes() { return this.#response.bytes(); }
  text() { return this.#response.text(); }
  json() { return this.#response.json(); }
  blob() { return this.#response.blob(); }
}

function described(key, { headers, status }) {
  const fields = Object.fromEntries(Object.values(FIELDS).map((name) => [name, headers.get(name) ?? undefined]));
  const [, start, end, whole] = headers.get('content-range')?.match(/(\d+)-(\d+)\/(\d+)/) ?? [];
  const size = Number(status === 206 ? whole : headers.get('content-length'));
  const etag = headers.get('etag').replaceAll('"', '');
  const description = { key, size, etag, modified: headers.get('last-modified'), fields, metadata: JSON.parse(headers.get(META) ?? '{}') };
  return [description, status === 206 ? { offset: Number(start), length: end - start + 1 } : { offset: 0, length: size }];
}

async function head(key) {
  const answer = await ask(pathOf(key), { method: 'HEAD' }, 404);
  return answer.status === 404 ? null : new FileObject(described(String(key), answer)[0]);
}

async function get(key, { range, onlyIf } = {}) {
  const headers = conditions(new Headers(), onlyIf);
  const span = range && rangeOf(range);
  if (span) headers.set('range', span);
  const answer = await ask(pathOf(key), { headers }, 404, 304, 412);
  if (answer.status === 404) return null;
  if (answer.ok) return new FileBody(...described(String(key), answer).toSpliced(1, 0, answer));
  return head(key);
}

async function put(key, value, { httpMetadata = {}, customMetadata = {}, onlyIf } = {}) {
  const headers = conditions(new Headers({ 'content-type': 'application/octet-stream' }), onlyIf);
  for (const [name, field] of Object.entries(FIELDS)) {
    const text = httpMetadata instanceof Headers ? httpMetadata.get(field) : httpMetadata[name];
    if (text) headers.set(field, text instanceof Date ? text.toUTCString() : text);
    else if (name === 'contentType' && value instanceof Blob && value.type) headers.set(field, value.type);
  }
  const text = JSON.stringify(customMetadata).replace(/[^\x20-\x7e]/g, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`);
  headers.set(META, text);
  const answer = await ask(pathOf(key), { method: 'PUT', headers, body: value ?? '', duplex: 'half' }, 412);
  return answer.ok ? new FileObject(await answer.json()) : (await answer.body?.cancel(), null);
}

async function remove(keys) {
  for (const key of [keys].flat()) await ask(pathOf(key), { method: 'DELETE' });
}

async function list({ prefix = '', delimiter = '', cursor = '', limit = 1000 } = {}) {
  const answer = await ask(`files?${new URLSearchParams({ prefix, delimiter, cursor, limit })}`);
  const page = await answer.json();
  const objects = page.files.map((each) => new FileObject(each));
  return { objects, delimitedPrefixes: page.prefixes, truncated: page.cursor !== undefined, cursor: page.cursor };
}

const post = async (path, document) => (await ask(path, { method: 'POST', body: JSON.stringify(document) })).json();

async function copy(from, to) {
  return new FileObject(await post('copy', { from, to }));
}

function seconds(duration) {
  const [, number, unit] = String(duration).match(/^(\d+)([smhd]?)$/) ?? [];
  if (!number) throw new TypeError(`expires is ${JSON.stringify(duration)}: write seconds, or 90s, 10m, 2h or 1d`);
  return number * (UNITS[unit] ?? 1);
}

function sign(key, { method = 'GET', expires = '10m', maxBytes, type, once } = {}) {
  return post('sign', { key, method, expires_s: seconds(expires), max_bytes: maxBytes, type, once });
}

// The host sends the file: whole, in part or not at all, as the request of the client asks.
function response(key, { status, headers } = {}) {
  const fields = new Headers(headers);
  fields.set('x-svc-file', encodeURIComponent(key));
  return new Response(null, { status, headers: fields });
}

export const files = { head, get, put, delete: remove, list, copy, sign, response, Error: FilesError };
