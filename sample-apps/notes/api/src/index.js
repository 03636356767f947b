// Each request runs this module in a new WebAssembly instance, so nothing stays in memory between requests.
// Data that must last belongs in a table. The table "notes" comes from tables/0001-notes.sql.
import { json, log, tables } from '@svc/guest';

async function list() {
  return json(await tables.query`select id, text, created_at from notes order by id desc limit 200`);
}

async function add(request) {
  const { text } = await request.json();
  // ${text} becomes a parameter of the statement, never a part of the SQL.
  const { rows } = await tables.exec`
    insert into notes (text) values (${String(text).trim()}) returning id, text, created_at`;
  log.info('note added', { id: rows[0].id }); // Read it with `svc logs`, or in Logs of the Console.
  return json(rows[0], { status: 201 });
}

async function remove(id) {
  const { changes } = await tables.exec`delete from notes where id = ${id}`;
  return changes ? new Response(null, { status: 204 }) : json({ title: 'No such note' }, { status: 404 });
}

export default {
  async fetch(request) {
    const { pathname } = new URL(request.url);
    const id = pathname.match(/^\/api\/notes\/(\d{1,15})$/)?.[1];
    try {
      if (request.method === 'GET' && pathname === '/api/notes') return await list();
      if (request.method === 'POST' && pathname === '/api/notes') return await add(request);
      if (request.method === 'DELETE' && id) return await remove(Number(id));
    } catch (error) {
      // The check in the table refused the text, or the body was not JSON. svc reports any other error.
      const refused = error instanceof tables.Error && error.code === 'constraint';
      if (!refused && !(error instanceof SyntaxError)) throw error;
      return json({ title: 'A note has 1 to 280 characters' }, { status: 400 });
    }
    return json({ title: 'Not found' }, { status: 404 });
  },
};
