// itty-router
import { AutoRouter, error, json, Router } from 'itty-router';
import { checks } from '../checks.js';

const router = AutoRouter();
router.get('/notes/:id', ({ params, query }) => ({ ...params, ...query }));
router.post('/notes', async (request) => json(await request.json(), { status: 201 }));
router.get('/broken', () => error(418, 'no tea'));

async function answer(path, init) {
  const response = await router.fetch(new Request(`http://a.example${path}`, init));
  return [response.status, response.headers.get('content-type'), await response.text()];
}

export default checks({
  'routes': async () => [await answer('/notes/7?sort=id'), await answer('/missing')],
  'body': () => answer('/notes', { method: 'POST', body: '{"a":1}' }),
  'errors': () => answer('/broken'),
  'middleware': async () => {
    const seen = [];
    const own = Router({ before: [() => void seen.push('before')], finally: [(response) => json([response, seen])] });
    return (await own.get('/', () => 'in').fetch(new Request('http://a.example/'))).json();
  },
});
