// h3
import { H3, readBody } from 'h3';
import { checks } from '../checks.js';

export default checks({
  'routes': async () => { const app = new H3().get('/hi/:name', ({ context }) => ({ hi: context.params.name })).post('/sum', async (event) => (await readBody(event)).reduce((a, b) => a + b)); const post = await app.request('/sum', { method: 'POST', body: '[1, 2]', headers: { 'content-type': 'application/json' } }); return [await (await app.request('/hi/ada')).json(), await post.text(), (await app.request('/none')).status]; },
});
