// ky
import ky from 'ky';
import { checks } from '../checks.js';

export default checks({
  'JSON': async (env) => {
    const { method, type, body } = await ky.post(`${env.UPSTREAM}/echo`, { json: { a: 'ü' } }).json();
    return [method, type, body];
  },
  'search parameters': async (env) => (await ky.get('echo', { prefixUrl: env.UPSTREAM, searchParams: { q: 'a b' } }).json()).path,
  'error': (env) => ky.get(`${env.UPSTREAM}/status/404`, { retry: 0 }).catch(({ name, response }) => [name, response.status]),
  'hooks': async (env) => {
    const own = ky.extend({ hooks: { afterResponse: [async (...[, , response]) => new Response(`${response.status} changed`)] } });
    return own.get(`${env.UPSTREAM}/echo`).text();
  },
  'timeout': (env) => ky.get(`${env.UPSTREAM}/echo`, { timeout: 5000 }).text().then((text) => text.length > 10),
});
