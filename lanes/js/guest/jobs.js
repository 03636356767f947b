// `jobs` of '@svc/guest': requests that svc sends later. Types and documentation are in svc-guest.d.ts.
import { documentOf, post } from './door.js';
import { sql as statement } from './tables.js';

const UNITS = { s: 1, m: 60, h: 3600, d: 86400 };
const OPTIONS = new Set(['resource', 'delay', 'key', 'maxTries']);

export class JobsError extends Error {
  constructor(status, { code = '', detail = `the response has status ${status}`, hint }) {
    super(detail);
    Object.assign(this, { name: 'JobsError', status, code, detail, hint });
  }
}

function seconds(delay) {
  if (typeof delay === 'number') return delay;
  const [, amount, unit] = /^(\d+(?:\.\d+)?)([smhd])$/.exec(delay) ?? [];
  if (unit) return Number(amount) * UNITS[unit];
  throw new TypeError(`the delay ${String(delay)} is neither a number of seconds nor a text such as '10m'`);
}

function bytesOf(body) {
  if (body instanceof ArrayBuffer) return new Uint8Array(body);
  if (ArrayBuffer.isView(body)) return new Uint8Array(body.buffer, body.byteOffset, body.byteLength);
  return null;
}

function jobOf(path, body, options) {
  for (const name of Object.keys(options)) {
    if (!OPTIONS.has(name)) throw new TypeError(`there is no option ${name}; available: ${[...OPTIONS].join(', ')}`);
  }
  const { resource, delay = 0, key = null, maxTries = null } = options;
  const bytes = bytesOf(body);
  const text = bytes || body === undefined ? undefined : JSON.stringify(body);
  if (!bytes && body !== undefined && text === undefined) throw new TypeError(`${typeof body} has no JSON form`);
  return { path, bytes, text, resource, delay_s: seconds(delay), key, max_tries: maxTries };
}

async function ask(operation, document) {
  const [status, text] = await post('jobs', `/v1/${operation}`, document);
  const answer = documentOf(text);
  if (status !== 200) throw new JobsError(status, answer);
  return answer;
}

export async function add(path, body, options = {}) {
  const { bytes, text, ...members } = jobOf(path, body, options);
  const json = JSON.stringify(bytes ? members : { ...members, body: text });
  // Encoding a long text of base64 as JSON would take several times its memory.
  return ask('add', bytes ? `${json.slice(0, -1)},"base64":"${bytes.toBase64()}"}` : json);
}

export function sql(path, body, options = {}) {
  const { bytes, text = null, resource = globalThis.process?.env?.SVC_RESOURCE, ...job } = jobOf(path, body, options);
  return statement(
    'INSERT INTO _svc_jobs_add (resource, path, body, delay_s, key, max_tries) VALUES ($1, $2, $3, $4, $5, $6)',
    resource, job.path, bytes ?? text, job.delay_s, job.key, job.max_tries,
  );
}

export async function remove(job) {
  return (await ask('remove', JSON.stringify(typeof job === 'string' ? { id: job } : job))).removed;
}

export { JobsError as Error };
