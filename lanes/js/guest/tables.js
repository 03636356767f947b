// `tables` of '@svc/guest': SQL over the tables of the project. Types and documentation are in svc-guest.d.ts.
import { ask, query as queryText, read, TablesError, written } from './tables_door.js';

export async function query(sql, ...params) {
  const text = queryText(written(sql, params));
  return rowsOf(read(typeof text === 'string' ? text : await text));
}

export async function exec(sql, ...params) {
  return outcome(read(await ask('exec', written(sql, params))));
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
  return read(await ask('batch', `{"statements":[${all.join()}]}`)).results.map(outcome);
}

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
