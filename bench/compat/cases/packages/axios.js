// axios
import axios from 'axios';
import { checks } from '../checks.js';

const client = axios.create({ adapter: 'fetch' });

export default checks({
  'JSON': async (env) => {
    const { status, data } = await client.post(`${env.UPSTREAM}/echo`, { a: 'ü' }, { params: { q: 'a b' } });
    return [status, data.method, data.path, data.body];
  },
  'error': (env) => client.get(`${env.UPSTREAM}/status/503`).catch(({ response, code }) => [response.status, code]),
  'interceptors': async (env) => {
    const own = axios.create({ adapter: 'fetch', baseURL: env.UPSTREAM });
    own.interceptors.response.use(({ data }) => data.method);
    return own.put('/echo', 'text');
  },
  'redirect': async (env) => (await client.get(`${env.UPSTREAM}/redirect`)).data.path,
  'default adapter': async (env) => (await axios.get(`${env.UPSTREAM}/echo`)).data.path,
});
