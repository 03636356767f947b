// @anthropic-ai/sdk
import Anthropic from '@anthropic-ai/sdk';
import { checks } from '../checks.js';

function client(env, path = '') {
  return new Anthropic({ apiKey: 'key', baseURL: `${env.UPSTREAM}${path}`, maxRetries: 0 });
}
const body = { model: 'small', max_tokens: 10, messages: [{ role: 'user', content: 'hi' }] };

export default checks({
  'message': async (env) => (await client(env).messages.create(body)).content,
  'error': (env) => client(env, '/status/400#').messages.create(body).catch((error) => [error.status, error instanceof Anthropic.BadRequestError]),
});
