import { fail, redirect } from '@sveltejs/kit';
import { tables } from '@svc/guest';

export async function load({ cookies }) {
  return {
    author: cookies.get('author') ?? '',
    rows: await tables.query`select * from "__TABLE__" order by id desc limit 100`,
    // A promise that is not awaited is streamed: the page is shown before it is there.
    count: tables.query`select count(*) as count from "__TABLE__"`.then(([row]) => row.count),
  };
}

export const actions = {
  default: async ({ request, cookies }) => {
    const form = await request.formData();
    const text = String(form.get('text') ?? '').trim();
    if (!text) return fail(400, { problem: 'Write a text.' });
    // ${text} becomes a parameter of the statement, never a part of the SQL.
    await tables.exec`insert into "__TABLE__" (text) values (${text})`;
    cookies.set('author', String(form.get('author') ?? ''), { path: '/' });
    redirect(303, '/');
  },
};
