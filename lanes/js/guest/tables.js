// `tables` of '@svc/guest': SQL over the tables of the Project. Types and documentation are in svc-guest.d.ts.
const encoder = new TextEncoder();
const LONG = /\d{16}/;
const DOORS = Symbol.for('svc.doors');

class TablesError extends Error {
  constructor(status, problem) {
    const { code = '', title = `the answer has status ${status}`, detail, position, statement } = problem;
    const batched = statement === undefined ? '' : `, in statement ${statement + 1}`;
    const place = position === undefined ? '' : `, at position ${position} of the SQL`;
    super(`${detail || title}${batched}${place}`);
    this.name = 'TablesError';
    const { constraint, hint } = problem;
    Object.assign(this, { status, code, constraint, title, detail, hint, position, statement });
  }
}

// Hosted, a read is one call of the host, which is over sooner than a fetch has begun; a program may do nothing
// else meanwhile. It comes without an await: that is a turn of the engine's own.
export async function query(sql, ...params) {
  const body = written(sql, params);
  hosted();
  const quick = globalThis[DOORS]?.('tables', '/v1/query', body);
  return rowsOf(quick ? answered(quick[0], quick[1]) : await ask('query', body));
}

export async function exec(sql, ...params) {
  return outcome(await ask('exec', written(sql, params)));
}

class Statement {
  constructor(json) {
    this.json = json;
  }
}

export function sql(text, ...params) {
  return new Statement(written(text, params));
}

export async function batch(statements) {
  const all = Array.from(statements, (statement) => {
    if (statement instanceof Statement) return statement.json;
    throw new TypeError('a batch is made of statements: tables.sql`…`');
  });
  return (await ask('batch', `{"statements":[${all.join()}]}`)).results.map(outcome);
}

function outcome(answer) {
  const { changes = 0, last_id: lastId = 0 } = answer;
  return { changes, lastId, rows: rowsOf(answer) };
}

// `blobs` names the columns whose texts are base 64.
function rowsOf({ rows = [], blobs = [] }) {
  for (const name of blobs) {
    for (const row of rows) {
      if (typeof row[name] === 'string') row[name] = Uint8Array.fromBase64(row[name]);
    }
  }
  return rows;
}

// Asked for once: the environment is behind a proxy.
let endpoint;
function hosted() {
  endpoint ||= globalThis.process?.env?.SVC_TABLES_ENDPOINT;
  if (!endpoint) throw new Error('SVC_TABLES_ENDPOINT is not set: this program is not hosted by svc');
  return endpoint;
}

// What waits for the disk, and a read where there is no short way, is a fetch as any other.
async function ask(path, body) {
  // Bytes, since a text would get a content type: each header is a call of the host.
  const answer = await fetch(`${hosted()}/v1/${path}`, { method: 'POST', body: encoder.encode(body) });
  return answered(answer.status, await answer.text());
}

function answered(status, text) {
  if (status === 200) return read(text);
  let problem = {};
  try {
    problem = JSON.parse(text);
  } catch {
    // What is no document has its status to tell.
  }
  throw new TablesError(status, problem);
}

// An integer that a number does not hold becomes a bigint. Few texts have one: the others are read at full speed.
function read(text) {
  if (!LONG.test(text)) return JSON.parse(text);
  return JSON.parse(text, (_, value, { source }) => {
    const exact = typeof value !== 'number' || Number.isSafeInteger(value) || /[.eE]/.test(source);
    return exact ? value : BigInt(source);
  });
}

// `text` has $1, $2 …, or is a template, whose values become those.
function written(text, params) {
  const whole = Array.isArray(text?.raw) ? text.reduce((before, after, n) => `${before}$${n}${after}`) : text;
  if (typeof whole !== 'string') throw new TypeError(`the SQL is of type ${typeof whole}, not a string`);
  return `{"sql":${JSON.stringify(whole)},"params":[${params.map(param).join()}]}`;
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

export { TablesError as Error };
