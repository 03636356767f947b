import { d1, json, password, stream, tables } from '@svc/guest';

const BYTES = new Uint8Array([0, 255, 16]);
const MOMENT = new Date('2026-01-31T12:34:56.789Z');
const DOCUMENT = { list: [1, 2.5, null], text: 'ü' };

const same = (a, b) =>
  a instanceof Uint8Array && b instanceof Uint8Array ? String([...a]) === String([...b]) :
  typeof a === 'object' && a !== null ? JSON.stringify(a) === JSON.stringify(b) : Object.is(a, b);

function differences(row, wanted) {
  return Object.keys(wanted).filter((name) => !same(row[name], wanted[name])).map((name) => `${name}: ${String(row[name])}`);
}

async function types() {
  await tables.exec(
    'insert into things (i, r, t, b, at, j, d) values ($1, $2, $3, $4, $5, $6, $7)',
    -(2n ** 63n), 1.5e300, 'ü"\\\n\0😀', true, MOMENT, DOCUMENT, BYTES,
  );
  const [row] = await tables.query`select * from things`;
  const found = differences(row, {
    id: 1, i: -(2n ** 63n), r: 1.5e300, t: 'ü"\\\n\0😀', b: true, at: '2026-01-31T12:34:56.789Z', j: DOCUMENT, d: BYTES,
  });
  const [more] = await tables.query(
    'select $1 as large, $2 as safe, $3 as part, $4 as text, $5 as real',
    2n ** 63n - 1n, Number.MAX_SAFE_INTEGER, 0.1, '9007199254740993', 1.2345678901234567e-300,
  );
  found.push(...differences(more, {
    large: 2n ** 63n - 1n, safe: Number.MAX_SAFE_INTEGER, part: 0.1, text: '9007199254740993',
    real: 1.2345678901234567e-300,
  }));
  const [{ d: part }] = await tables.query('select d from things where d = $1', BYTES.buffer);
  return [...found, ...differences({ part }, { part: BYTES })];
}

async function nulls() {
  const values = Array(7).fill(null);
  await tables.exec('insert into things (i, r, t, b, at, j, d) values ($1, $2, $3, $4, $5, $6, $7)', ...values);
  const [row] = await tables.query`select i, r, t, b, at, j, d from things`;
  return Object.keys(row).filter((name) => row[name] !== null);
}

async function hostile() {
  const name = "'; drop table users; --";
  await tables.exec`insert into users (name) values (${name})`;
  return tables.query`select name from users where name = ${name}`;
}

const wire = ({ changes, lastId, rows }) => ({ changes, last_id: lastId, rows });

async function exec() {
  const inserted = await tables.exec`insert into users (id, name) values (${7}, ${'ada'})`;
  const updated = await tables.exec('update users set age = $2 where name = $1', 'ada', 36);
  const returned = await tables.exec`insert into users (name) values (${'bob'}) returning id, name`;
  return [inserted, updated, returned].map(wire);
}

function told({ status, code, constraint, message, position, statement }) {
  return { status, code, constraint, message, position, statement };
}

const failure = (promise) => promise.then(() => 'no error', (error) => (error instanceof tables.Error ? told(error) : String(error)));

async function batch() {
  const insert = (name) => tables.sql`insert into users (name) values (${name})`;
  const done = await tables.batch([insert('ada'), insert('bob'), tables.sql('select count(*) as n from users')]);
  return [done.map(wire), await failure(tables.batch([insert('eve'), insert('ada')]))];
}

async function options() {
  const add = 'insert into users (name) values ($1) returning id';
  const keyed = (idempotencyKey) => tables.withOptions({ idempotencyKey });
  const several = ['bob', 'eve'].map((name) => tables.sql(add, name));
  const stale = tables.withOptions({ staleOk: true });
  const execs = [await keyed('one').exec(add, 'ada'), await keyed('one').exec(add, 'ada')];
  const batches = [await keyed('two "2"').batch(several), await keyed('two "2"').batch(several)];
  return [
    execs.map(wire),
    batches.map((all) => all.map(wire)),
    [await failure(keyed('one').exec(add, 'max')), await failure(keyed('k'.repeat(256)).exec(add, 'max'))],
    await stale.query`select name from users`,
    (await stale.batch([tables.sql('select count(*) as n from users')])).map(wire),
  ];
}

async function errors() {
  await tables.exec`insert into users (name) values ('ada')`;
  return Promise.all([
    failure(tables.query('select nme from users')),
    failure(tables.exec`insert into users (name) values ('ada')`),
    failure(tables.query('select $1', 1, 2)),
    failure(tables.query('delete from users')),
  ]);
}

function unfit() {
  return Promise.all([
    failure(tables.query('select $1', undefined)),
    failure(tables.query('select $1, $2', 1, NaN)),
    failure(tables.query`select ${Infinity}`),
    failure(tables.query('select $1', () => 1)),
    failure(tables.query(undefined)),
    failure(tables.batch(['select 1'])),
  ]);
}

const add = (name) => tables.exec`insert into users (name) values (${name})`;

async function together() {
  const added = await Promise.all(['ada', 'bob', 'eve'].map(add));
  return added.map(({ lastId }) => lastId);
}

async function duration() {
  const start = performance.now();
  await add('ada');
  return performance.now() - start;
}

// The loop takes so long that the program continues in a worker thread.
async function afterLoop() {
  for (let count = 0; count < 2_000_000; count++);
  const [{ lastId }, error] = [await add('ada'), await failure(add('ada'))];
  return [lastId, error.code, (await tables.query`select name from users`).length];
}

function waiting() {
  return stream(async (write) => {
    await write('first ');
    const { lastId } = await add('ada');
    await write(`${lastId} ${(await tables.query`select name from users`).length}`);
  });
}

async function results() {
  const insert = d1.prepare('insert into users (name, age) values (?, ?)');
  const { success, results: none, meta } = await insert.bind('ada', 36).run();
  const returned = await d1.prepare('insert into users (name) values (?1), (?2) returning id, name').bind('bob', 'eve').all();
  const all = d1.prepare('select name, age from users where id < ? order by id').bind(9);
  const added = d1.prepare("with x as (select 'zoe' as name) insert into users (name) select name from x returning name");
  const join = d1.prepare('select a.id, b.id, b.name from users a join users b on b.id = a.id + 1 limit 1');
  await d1.prepare('insert into things (b, j, d, at) values (?, ?, ?, ?)').bind(true, { a: 1 }, [...BYTES], null).run();
  const stored = d1.prepare('select b, j, d, substr(d, 2) as part, at from things');
  return {
    insert: [success, none, meta.changes, meta.last_row_id, meta.rows_written, meta.changed_db, typeof meta.duration],
    returning: [returned.results, returned.meta.changes, returned.meta.last_row_id, returned.meta.rows_read],
    all: (await all.all()).results,
    raw: [await all.raw(), await all.raw({ columnNames: true })],
    first: [await all.first(), await all.first('name'), await all.bind(-1).first(), await all.bind(-1).first('name')],
    missing: await all.first('nope').catch(String),
    with: await added.first('name'),
    join: [await join.first(), await join.raw({ columnNames: true })],
    stored: [await stored.first(), await stored.raw()],
    batch: (await d1.batch([insert.bind('max', 1), d1.prepare('select last_insert_rowid() as id'), all.bind(2)])).map(
      ({ results: rows, meta: { changes } }) => [rows, changes],
    ),
    exec: (await d1.exec("insert into users (name) values ('kim')\n\nupdate users set age = 1 where name = 'kim'\n")).count,
    schema: await d1.prepare("select name from sqlite_master where type = 'table' order by name").raw(),
    errors: await Promise.all([
      failure(d1.batch([insert.bind('new', 1), insert.bind('ada', 1)])),
      failure(d1.exec('create table x (id integer)')),
      failure(d1.prepare('begin').run()),
      failure(d1.prepare('select ?').bind(undefined).all()),
      failure(d1.batch(['select 1'])),
      failure(d1.dump()),
    ]),
  };
}

async function arrays() {
  await tables.exec('insert into things (d) values (?1), (?1)', BYTES);
  const join = d1.prepare('select a.id, b.id, ? as x, a.d from things a join things b on b.id = a.id + 1');
  const [columns, [...row]] = await join.bind('first').raw({ columnNames: true });
  return [columns, [...row.slice(0, 3), same(new Uint8Array(row[3]), BYTES)]];
}

async function passwords() {
  const hash = await password.hash('pässword');
  const [right, wrong] = [await password.verify('pässword', hash), await password.verify('password', hash)];
  const error = await password.verify('password', 'none').catch(({ message }) => message);
  return [hash.slice(0, 31), right, wrong, error];
}

const ROUTES = {
  '/types': types,
  '/nulls': nulls,
  '/order': () => tables.query('select $2 as b, $1 as a, $1 as again', 'first', 'second'),
  '/arrays': arrays,
  '/hostile': hostile,
  '/exec': exec,
  '/batch': batch,
  '/options': options,
  '/unknown-option': () => failure(Promise.resolve().then(() => tables.withOptions({ stale_ok: true }))),
  '/errors': errors,
  '/unfit': unfit,
  '/together': together,
  '/duration': duration,
  '/after-loop': afterLoop,
  '/waiting': waiting,
  '/d1': results,
  '/password': passwords,
};

export default {
  async fetch(request) {
    const result = await ROUTES[new URL(request.url).pathname]();
    return result instanceof Response ? result : json(result);
  },
};
