// `d1` of '@svc/guest': the tables of the project with the interface of Cloudflare's D1. Types and documentation
// are in svc-guest.d.ts.
import { ask, query, read, TablesError, written } from './tables_door.js';

const READS = /^\s*(?:select|values|with|explain|pragma)\b/i;
const OBJECTS = ',"rows":"last","values":"stored"';
const ARRAYS = ',"rows":"arrays","values":"stored"';
const BLOB = '{"base64":';

class PreparedStatement {
  constructor(sql, params) {
    Object.assign(this, { sql, params });
  }

  bind(...params) {
    return new PreparedStatement(this.sql, params.map((param) => (isBytes(param) ? Uint8Array.from(param) : param)));
  }

  async all() {
    const start = performance.now();
    return result(await run(this, OBJECTS), start);
  }

  run() {
    return this.all();
  }

  async first(column) {
    const [row = null] = (await run(this, OBJECTS)).rows;
    if (row === null || column === undefined) return row;
    if (!Object.hasOwn(row, column)) throw new Error(`D1_COLUMN_NOTFOUND: the result has no column ${column}`);
    return row[column];
  }

  async raw({ columnNames = false } = {}) {
    const { columns, rows } = await run(this, ARRAYS);
    return columnNames ? [columns, ...rows] : rows;
  }
}

// D1 accepts an array of bytes for a blob.
const isBytes = (value) => Array.isArray(value) && value.every((byte) => Number.isInteger(byte) && byte >= 0 && byte < 256);

// The first word shows whether a statement reads, except after WITH: the host rejects such a statement that writes.
async function run({ sql, params }, options) {
  const body = written(sql, params, options);
  if (READS.test(sql)) {
    try {
      return answerOf(await query(body));
    } catch (error) {
      if (!(error instanceof TablesError && error.code === 'writes-in-query')) throw error;
    }
  }
  return answerOf(await ask('exec', body));
}

async function batch(statements) {
  const start = performance.now();
  const all = Array.from(statements, (statement) => {
    if (statement instanceof PreparedStatement) return written(statement.sql, statement.params, OBJECTS);
    throw new TypeError('a batch is made of statements: d1.prepare(…)');
  });
  const { results } = answerOf(await ask('batch', `{"statements":[${all.join()}]}`));
  return results.map((each) => result(each, start));
}

function answerOf(text) {
  const answer = read(text);
  if (text.includes(BLOB)) for (const { rows } of answer.results ?? [answer]) rows?.forEach(unpack);
  return { columns: [], rows: [], ...answer };
}

// Of the stored values, only a blob is an object. D1 has an array of its bytes.
function unpack(row) {
  for (const [name, value] of Object.entries(row)) {
    if (typeof value === 'object' && value !== null) row[name] = Array.from(Uint8Array.fromBase64(value.base64));
  }
}

function result({ rows = [], changes = 0, last_id = 0 }, start) {
  const meta = {
    duration: performance.now() - start,
    changes,
    last_row_id: last_id,
    changed_db: changes > 0,
    rows_read: rows.length,
    rows_written: changes,
    size_after: 0,
  };
  return { success: true, results: rows, meta };
}

const prepare = (sql) => new PreparedStatement(sql, []);

export const d1 = {
  prepare,
  batch,
  async exec(sql) {
    const start = performance.now();
    const lines = sql.split('\n').filter((line) => line.trim());
    await batch(lines.map(prepare));
    return { count: lines.length, duration: performance.now() - start };
  },
  withSession: () => ({ prepare, batch, getBookmark: () => null }),
  async dump() {
    throw new Error('d1.dump() does not exist here: `svc tables export --all` makes a copy');
  },
};
