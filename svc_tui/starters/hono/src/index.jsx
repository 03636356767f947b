/** @jsxImportSource hono/jsx */
import { tables } from '@svc/guest';
import { Hono } from 'hono';
import { getCookie, setCookie } from 'hono/cookie';
import { csrf } from 'hono/csrf';
import { Suspense } from 'hono/jsx';
import { renderToReadableStream } from 'hono/jsx/streaming';

const Page = ({ children }) => (
  <html lang="en">
    <head>
      <meta charset="utf-8" />
      <meta name="viewport" content="width=device-width" />
      <title>__NAME__</title>
    </head>
    <body>{children}</body>
  </html>
);

async function Count() {
  const [row] = await tables.query`select count(*) as count from "__TABLE__"`;
  return <p>{row.count} rows</p>;
}

const Home = ({ author, rows, problem }) => (
  <Page>
    <h1>__NAME__</h1>
    <form method="post">
      <label>
        Name <input name="author" value={author} />
      </label>
      <label>
        Text <input name="text" required />
      </label>
      <button>Add</button>
      {problem && <p role="alert">{problem}</p>}
    </form>
    {/* What waits is streamed: the page is shown before it is there. */}
    <Suspense fallback={<p>Counting …</p>}>
      <Count />
    </Suspense>
    <ul>
      {rows.map((row) => (
        <li>{row.text}</li>
      ))}
    </ul>
    <a href="/about">About</a>
  </Page>
);

async function home(context, status, problem) {
  const rows = await tables.query`select * from "__TABLE__" order by id desc limit 100`;
  const author = getCookie(context, 'author') ?? '';
  context.header('content-type', 'text/html; charset=utf-8');
  // Rendered before the response begins, so that an error is a 500. What waits is streamed.
  const page = await (<Home author={author} rows={rows} problem={problem} />).toString();
  return context.body(renderToReadableStream(page), status);
}

const app = new Hono();
app.use(csrf());
app.get('/', (context) => home(context, 200));
app.post('/', async (context) => {
  const { author = '', text = '' } = await context.req.parseBody();
  if (!String(text).trim()) return home(context, 400, 'Write a text.');
  // ${text} becomes a parameter of the statement, never a part of the SQL.
  await tables.exec`insert into "__TABLE__" (text) values (${String(text).trim()})`;
  setCookie(context, 'author', String(author), { path: '/' });
  return context.redirect('/', 303);
});
app.notFound((context) =>
  context.html(
    <Page>
      <h1>404 Not found</h1>
    </Page>,
    404,
  ),
);

export default app;
