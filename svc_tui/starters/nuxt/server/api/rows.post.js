import { tables } from '@svc/guest';

export default defineEventHandler(async (event) => {
  const form = await readFormData(event);
  const text = String(form.get('text') ?? '').trim();
  if (!text) throw createError({ statusCode: 400, statusMessage: 'Write a text.' });
  // ${text} becomes a parameter of the statement, never a part of the SQL.
  await tables.exec`insert into "__TABLE__" (text) values (${text})`;
  setCookie(event, 'author', String(form.get('author') ?? ''), { path: '/' });
  return sendRedirect(event, '/', 303);
});
