// openai
import OpenAI from 'openai';
import { checks, collect } from '../checks.js';

function client(env, path) {
  return new OpenAI({ apiKey: 'key', baseURL: `${env.UPSTREAM}/${path}`, maxRetries: 0 });
}
const body = { model: 'small', messages: [{ role: 'user', content: 'hi' }] };

export default checks({
  'completion': async (env) => (await client(env, 'v1').chat.completions.create(body)).choices[0].message.content,
  'stream': async (env) => {
    const chunks = await collect(await client(env, 'stream').chat.completions.create({ ...body, stream: true }));
    return chunks.map(({ choices }) => choices[0].delta.content);
  },
  'error': (env) => client(env, 'status/429#').models.list().catch((error) => [error.status, error.name, error instanceof OpenAI.RateLimitError]),
  'upload': async (env) => {
    const file = new File(['{}'], 'a.jsonl');
    const { method, type } = await client(env, 'echo').files.create({ file, purpose: 'batch' });
    return [method, type.split(';')[0]];
  },
});
