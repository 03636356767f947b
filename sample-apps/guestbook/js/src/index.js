// Each request runs this module in a new WebAssembly instance. Data that must last belongs in a table.
import { json, log, tables } from '@svc/guest';

// Errors that a visitor can correct: a row violates a rule of the table, or a text is not valid.
const REFUSALS = ['constraint', 'bad-parameters'];

async function list() {
  return json(await tables.query`select * from entries order by id desc limit 100`);
}

async function add(request) {
  const { author = null, message = null } = (await request.json()) ?? {};
  const { rows } = await tables.exec`
    insert into entries (lane, author, message) values ('js', ${author}, ${message}) returning *`;
  log.info('entry written', { lane: 'js', id: rows[0].id, author });
  return json(rows[0], { status: 201 });
}

// One transaction adds the heart and returns the new number.
async function heart(id) {
  const [, { rows }] = await tables.batch([
    tables.sql`update entries set hearts = hearts + 1 where id = ${id}`,
    tables.sql`select * from entries where id = ${id}`,
  ]);
  return rows.length ? json(rows[0]) : json({ title: 'There is no such entry' }, { status: 404 });
}

// The visitor can correct an entry that the table rejects.
function refused(error) {
  log.warn('entry refused', { lane: 'js', reason: error.detail });
  return json({ title: 'A name has 1 to 40 characters, and a message 1 to 280' }, { status: 400 });
}

export default {
  async fetch(request) {
    const { pathname } = new URL(request.url);
    const entry = pathname.match(/^\/js\/entries\/(\d{1,15})\/heart$/);
    try {
      if (request.method === 'GET' && pathname === '/js/entries') return await list();
      if (request.method === 'POST' && pathname === '/js/entries') return await add(request);
      if (request.method === 'POST' && entry) return await heart(Number(entry[1]));
    } catch (error) {
      if (error instanceof SyntaxError) return json({ title: 'An entry is JSON with author and message' }, { status: 400 });
      if (error instanceof tables.Error && REFUSALS.includes(error.code)) return refused(error);
      throw error;
    }
    return json({ title: 'Not found' }, { status: 404 });
  },
};
