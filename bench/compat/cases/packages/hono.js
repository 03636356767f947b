// hono
import { Hono } from 'hono';
import { cors } from 'hono/cors';
import { etag } from 'hono/etag';
import { sign, verify } from 'hono/jwt';
import { validator } from 'hono/validator';
import { bytes, checks, hex } from '../checks.js';

const app = new Hono();
app.use('/tagged', etag());
app.use('/shared', cors({ origin: 'https://a.example' }));
app.get('/users/:id{[0-9]+}', (context) => context.json({ id: context.req.param('id'), sort: context.req.query('sort') }));
app.get('/tagged', (context) => context.text('tea'));
app.get('/shared', (context) => context.text('tea'));
app.get('/broken', () => {
  throw new RangeError('no');
});
app.onError((error, context) => context.text(error.message, 500));
app.post('/file', async (context) => {
  const { file } = await context.req.parseBody();
  return context.json([file.name, file.type, hex(await file.arrayBuffer())]);
});
app.post('/valid', validator('json', (value, context) => (value.name ? value : context.text('no name', 400))), (context) =>
  context.json(context.req.valid('json')));

async function answer(path, init) {
  const response = await app.request(path, init);
  return [response.status, response.headers.get('content-type'), await response.text()];
}

export default checks({
  'routes': async () => [await answer('/users/42?sort=name'), await answer('/users/x'), await answer('/broken')],
  'etag': async () => {
    const tag = (await app.request('/tagged')).headers.get('etag');
    return [tag, (await app.request('/tagged', { headers: { 'if-none-match': tag } })).status];
  },
  'cors': async () => {
    const { headers, status } = await app.request('/shared', { method: 'OPTIONS', headers: { origin: 'https://a.example' } });
    return [status, headers.get('access-control-allow-origin'), headers.get('access-control-allow-methods')];
  },
  'uploaded file': async () => {
    const form = new FormData();
    form.append('file', new File([new Uint8Array([0, 255, 13, 10, 128])], 'a b.bin', { type: 'image/png' }));
    return (await app.request('/file', { method: 'POST', body: form })).json();
  },
  'validator': async () => {
    const post = (body) => answer('/valid', { method: 'POST', headers: { 'content-type': 'application/json' }, body });
    return [await post('{"name":"ada"}'), await post('{}')];
  },
  'JWT': async () => {
    const token = await sign({ sub: 'ada' }, 'secret', 'HS256');
    return [token, await verify(token, 'secret', 'HS256'), bytes(token).length];
  },
});
