// superagent
import superagent from 'superagent';
import { checks } from '../checks.js';

export default checks({
  'post JSON': async (env) => {
    const { status, body } = await superagent.post(`${env.UPSTREAM}/echo`).query({ q: 'a b' }).send({ a: 'ü' });
    return [status, body.method, body.path, body.body];
  },
  'error': (env) => superagent.get(`${env.UPSTREAM}/status/503`).catch(({ status }) => status),
});
