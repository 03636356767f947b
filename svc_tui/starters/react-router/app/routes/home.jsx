import { tables } from '@svc/guest';
import { Suspense } from 'react';
import { Await, Form, createCookie, data, redirect } from 'react-router';

const authorCookie = createCookie('author', { path: '/' });

export async function loader({ request }) {
  return {
    author: (await authorCookie.parse(request.headers.get('cookie'))) ?? '',
    rows: await tables.query`select * from "__TABLE__" order by id desc limit 100`,
    // A promise that is not awaited is streamed: the page is shown before it is there.
    count: tables.query`select count(*) as count from "__TABLE__"`.then(([row]) => row.count),
  };
}

export async function action({ request }) {
  const form = await request.formData();
  const text = String(form.get('text') ?? '').trim();
  if (!text) return data({ problem: 'Write a text.' }, { status: 400 });
  // ${text} becomes a parameter of the statement, never a part of the SQL.
  await tables.exec`insert into "__TABLE__" (text) values (${text})`;
  return redirect('/', {
    status: 303,
    headers: { 'set-cookie': await authorCookie.serialize(String(form.get('author') ?? '')) },
  });
}

export default function Home({ loaderData: { author, rows, count }, actionData }) {
  return (
    <>
      <h1>__NAME__</h1>
      <Form method="post">
        <label>
          Name <input name="author" defaultValue={author} />
        </label>
        <label>
          Text <input name="text" required />
        </label>
        <button>Add</button>
        {actionData?.problem && <p role="alert">{actionData.problem}</p>}
      </Form>
      <Suspense fallback={<p>Counting …</p>}>
        <Await resolve={count}>{(number) => <p>{number} rows</p>}</Await>
      </Suspense>
      <ul>
        {rows.map((row) => (
          <li key={row.id}>{row.text}</li>
        ))}
      </ul>
      <a href="/about">About</a>
    </>
  );
}
