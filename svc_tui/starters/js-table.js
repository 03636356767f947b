// Each request runs this module in a new WebAssembly instance. Rows of the table "__TABLE__" persist.
import { json, tables } from '@svc/guest';

async function add(request) {
  const { text } = await request.json();
  // ${text} becomes a parameter of the statement, never a part of the SQL.
  const { rows } = await tables.exec`insert into "__TABLE__" (text) values (${String(text)}) returning *`;
  return json(rows[0], { status: 201 });
}

export default {
  async fetch(request) {
    const { pathname } = new URL(request.url);
    if (pathname !== '__PREFIX__/__TABLE__') return json({ title: 'Not found' }, { status: 404 });
    if (request.method === 'GET') return json(await tables.query`select * from "__TABLE__" order by id desc limit 100`);
    if (request.method !== 'POST') return json({ title: 'Method not allowed' }, { status: 405 });
    try {
      return await add(request);
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      return json({ title: 'The body is JSON with a text' }, { status: 400 });
    }
  },
};
