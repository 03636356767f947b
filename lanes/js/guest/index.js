// The module '@svc/guest'. It uses web standards only, so a handler that is written with
// it runs wherever fetch handlers run. Types and documentation are in svc-guest.d.ts.
const encoder = new TextEncoder();
export { d1 } from './d1.js';
export { files, FilesError } from './files.js';
export * as jobs from './jobs.js';
export * as password from './password.js';
export * as tables from './tables.js';

const print = console.error.bind(console);

function bytesOf(chunk) {
  if (typeof chunk === 'string') return encoder.encode(chunk);
  if (chunk instanceof Uint8Array) return chunk;
  if (chunk instanceof ArrayBuffer) return new Uint8Array(chunk);
  if (ArrayBuffer.isView(chunk)) return new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  throw new TypeError(`a chunk is a ${chunk === null ? 'null' : typeof chunk}: write text or bytes`);
}

function withHeaders(init, defaults) {
  const headers = new Headers(init?.headers);
  for (const [name, value] of Object.entries(defaults)) {
    if (!headers.has(name)) headers.set(name, value);
  }
  return { ...init, headers };
}

// Hosted, it watches for the client's disconnect.
const watch = globalThis[Symbol.for('svc.client')];

// A body whose writer learns when the reader wants more, and when it has disconnected.
function written(produce) {
  const gone = new AbortController();
  let waiting = [];
  const wake = () => waiting.splice(0).forEach((done) => done());
  return new ReadableStream({
    start(controller) {
      const write = async (chunk) => {
        gone.signal.throwIfAborted();
        const bytes = bytesOf(chunk);
        if (bytes.byteLength === 0) return;
        controller.enqueue(bytes);
        await new Promise((done) => waiting.push(done));
      };
      // Not awaited: a stream is read only after its start has finished.
      (async () => {
        try {
          await produce(write, () => {
            watch?.();
            return gone.signal;
          });
          if (!gone.signal.aborted) controller.close();
        } catch (error) {
          if (!gone.signal.aborted) controller.error(error);
        }
      })();
    },
    pull: wake,
    cancel(reason) {
      gone.abort(reason);
      wake();
    },
  }, { highWaterMark: 0 });
}

export function stream(produce, init) {
  return new Response(
    written((write, signal) => produce(write, { get signal() { return signal(); } })),
    withHeaders(init, { 'content-type': 'text/plain; charset=utf-8' }),
  );
}

function line(name, value) {
  const text = String(value);
  if (/[\r\n\0]/.test(text)) throw new TypeError(`the ${name} of an event has a line break or a zero byte`);
  return `${name}: ${text}\n`;
}

function lines(prefix, text) {
  return text.split(/\r\n|\r|\n/).map((one) => `${prefix}${one}\n`).join('');
}

function encoded(event) {
  const { id, event: name, data, retry } = typeof event === 'object' && event !== null ? event : { data: event };
  let text = '';
  if (name !== undefined) text += line('event', name);
  if (id !== undefined) text += line('id', id);
  if (retry !== undefined) {
    if (!Number.isInteger(retry) || retry < 0) throw new TypeError('retry is a whole number of milliseconds');
    text += line('retry', retry);
  }
  if (data !== undefined) text += lines('data: ', typeof data === 'string' ? data : JSON.stringify(data));
  if (!text) throw new TypeError('an event needs one of id, event, data and retry');
  return `${text}\n`;
}

export function eventStream(produce, init = {}) {
  const { keepAlive = 15_000, ...rest } = init;
  const body = written(async (write, signal) => {
    let quiet = true;
    const send = (text) => {
      quiet = false;
      return write(text);
    };
    const events = {
      get signal() { return signal(); },
      send: async (event) => send(encoded(event)),
      comment: async (text = '') => send(`${lines(': ', String(text))}\n`),
    };
    const keeping = keepAlive > 0 && setInterval(() => {
      if (quiet) write(':\n\n').catch(() => {});
      quiet = true;
    }, keepAlive);
    try {
      await produce(events);
    } finally {
      if (keeping) clearInterval(keeping);
    }
  });
  return new Response(
    body,
    withHeaders(rest, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' }),
  );
}

export function json(value, init) {
  const text = JSON.stringify(value);
  if (text === undefined) throw new TypeError(`${typeof value} has no JSON form`);
  return new Response(text, withHeaders(init, { 'content-type': 'application/json' }));
}

export function sleep(ms, signal) {
  return new Promise((done, fail) => {
    if (signal?.aborted) return fail(signal.reason);
    const stop = () => {
      clearTimeout(timer);
      fail(signal.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      done();
    }, ms);
    signal?.addEventListener('abort', stop, { once: true });
  });
}

// Values that JSON cannot represent become text; a circular reference is included once.
function plain(value, above) {
  if (typeof value === 'bigint') return String(value);
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  if (typeof value !== 'object' || value === null) return value;
  if (typeof value.toJSON === 'function') return value.toJSON();
  if (above.includes(value)) return '[circular]';
  const inside = [...above, value];
  if (Array.isArray(value)) return value.map((one) => plain(one, inside));
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, plain(one, inside)]));
}

// The JSON of a value whose getter or toJSON throws is its error.
function shown(value) {
  try {
    const kept = plain(value, []);
    return [kept, JSON.stringify(kept)];
  } catch (error) {
    return [`[${error}]`];
  }
}

function entries(attributes) {
  return Object.keys(attributes ?? {}).map((key) => {
    try {
      return [key, attributes[key]];
    } catch (error) {
      return [key, `[${error}]`];
    }
  });
}

function asLine(level, message, attributes) {
  const fields = { level, msg: message };
  for (const [key, value] of attributes) fields[Object.hasOwn(fields, key) ? `${key}_` : key] = shown(value)[0];
  print(JSON.stringify(fields));
}

function anyValue(value) {
  switch (typeof value) {
    case 'string':
      return { stringValue: value };
    case 'boolean':
      return { boolValue: value };
    case 'number':
      if (Number.isSafeInteger(value)) return { intValue: String(value) };
      return { doubleValue: Number.isFinite(value) ? value : String(value) };
    case 'bigint':
      return BigInt.asIntN(64, value) === value ? { intValue: String(value) } : { stringValue: String(value) };
  }
  const [kept, text] = shown(value);
  if (typeof kept === 'string') return { stringValue: kept };
  return kept === null || text === undefined ? {} : { stringValue: text };
}

// A LogRecord of OpenTelemetry in JSON. Its times are texts, because they exceed the range of a number.
function otlp(severityNumber, message, attributes) {
  return JSON.stringify({
    timeUnixNano: `${Date.now()}000000`,
    severityNumber,
    body: { stringValue: message },
    attributes: attributes
      .filter(([, value]) => value !== undefined)
      .map(([key, value]) => ({ key, value: anyValue(value) })),
  });
}

// Hosted, records go to the telemetry Door.
const door = globalThis[Symbol.for('svc.telemetry')];

function record(level, severity, message, attributes) {
  if (door?.open) door.add(otlp(severity, String(message), entries(attributes)), severity >= 17);
  else asLine(level, String(message), entries(attributes));
}

const at = (level, severity) => (message, attributes) => record(level, severity, message, attributes);
export const log = {
  trace: at('trace', 1),
  debug: at('debug', 5),
  info: at('info', 9),
  warn: at('warn', 13),
  error: at('error', 17),
  flush: () => door?.flush(),
};
