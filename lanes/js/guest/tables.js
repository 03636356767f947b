// `tables` of '@svc/guest': SQL over the tables of the project. Types and documentation are in svc-guest.d.ts.
import { ask, query as queryText, read, TablesError, written } from './tables_door.js';

class Statement {
  constructor(json) {
    this.json = json;
  }
}

export function sql(text, ...params) {
  return new Statement(written(text, params));
}

const OPTIONS = { idempotencyKey: 'idempotency_key', staleOk: 'stale_ok' };

export function withOptions(options) {
  const json = Object.entries(options).map(([name, value]) => {
    if (Object.hasOwn(OPTIONS, name)) return `,"${OPTIONS[name]}":${JSON.stringify(value) ?? null}`;
    throw new TypeError(`there is no option ${name}; available: ${Object.keys(OPTIONS).join(', ')}`);
  }).join('');
  return {
    async query(sql, ...params) {
      const text = queryText(written(sql, params, json));
      return rowsOf(read(typeof text === 'string' ? text : await text));
    },
    async exec(sql, ...params) {
      return outcome(read(await ask('exec', written(sql, params, json))));
    },
    async batch(statements) {
      const all = Array.from(statements, (statement) => {
        if (statement instanceof Statement) return statement.json;
        throw new TypeError('a batch is made of statements: tables.sql`…`');
      });
      return read(await ask('batch', `{"statements":[${all.join()}]${json}}`)).results.map(outcome);
    },
  };
}

const plain = /* @__PURE__ */ withOptions({});
export const query = (...statement) => plain.query(...statement);
export const exec = (...statement) => plain.exec(...statement);
export const batch = (statements) => plain.batch(statements);

function outcome(answer) {
  const { changes = 0, last_id: lastId = 0 } = answer;
  return { changes, lastId, rows: rowsOf(answer) };
}

// `blobs` names the columns whose texts are base64.
function rowsOf({ rows = [], blobs = [] }) {
  for (const name of blobs) {
    for (const row of rows) {
      if (typeof row[name] === 'string') row[name] = Uint8Array.fromBase64(row[name]);
    }
  }
  return rows;
}

export { TablesError as Error };
