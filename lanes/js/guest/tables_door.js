// The requests of `tables` and `d1` to the tables Door.
import { call, documentOf, post } from './door.js';

const LONG = /\d{16}/;

export class TablesError extends Error {
  constructor(status, problem) {
    const { code = '', title = `the response has status ${status}`, detail, position, statement } = problem;
    const batched = statement === undefined ? '' : `, in statement ${statement + 1}`;
    const place = position === undefined ? '' : `, at position ${position} of the SQL`;
    super(`${detail || title}${batched}${place}`);
    this.name = 'TablesError';
    const { constraint, hint } = problem;
    Object.assign(this, { status, code, constraint, title, detail, hint, position, statement });
  }
}

// The text of a read, or a promise of it: an await is a turn of the engine's own.
export function query(body) {
  const answer = call('tables', '/v1/query', body);
  return Array.isArray(answer) ? answered(answer) : answer.then(answered);
}

export async function ask(operation, body) {
  return answered(await post('tables', `/v1/${operation}`, body));
}

function answered([status, text]) {
  if (status === 200) return text;
  throw new TablesError(status, documentOf(text));
}

// An integer beyond the safe range of a number becomes a bigint. Few texts contain one: the others are parsed faster.
export function read(text) {
  if (!LONG.test(text)) return JSON.parse(text);
  return JSON.parse(text, (_, value, { source }) => {
    const exact = typeof value !== 'number' || Number.isSafeInteger(value) || /[.eE]/.test(source);
    return exact ? value : BigInt(source);
  });
}

// `text` has $1, $2 … or ?, or is a template, whose values become those. `options` is JSON.
export function written(text, params, options = '') {
  const whole = Array.isArray(text?.raw) ? text.reduce((before, after, n) => `${before}$${n}${after}`) : text;
  if (typeof whole !== 'string') throw new TypeError(`the SQL is of type ${typeof whole}, not a string`);
  return `{"sql":${JSON.stringify(whole)},"params":[${params.map(param).join()}]${options}}`;
}

function param(value, at) {
  switch (typeof value) {
    case 'string':
      return JSON.stringify(value);
    case 'boolean':
    case 'bigint':
      return String(value);
    case 'number':
      if (Number.isFinite(value)) return String(value);
      break;
    case 'object': {
      if (value === null) return 'null';
      if (value instanceof Date) return JSON.stringify(value.toISOString());
      if (value instanceof ArrayBuffer) return blob(new Uint8Array(value));
      if (ArrayBuffer.isView(value)) return blob(new Uint8Array(value.buffer, value.byteOffset, value.byteLength));
      return JSON.stringify(JSON.stringify(value));
    }
  }
  const hint = value === undefined ? '; null stands for no value' : '';
  throw new TypeError(`parameter $${at + 1} is ${String(value)}, which no column holds${hint}`);
}

const blob = (bytes) => `{"base64":"${bytes.toBase64()}"}`;
