// Each request runs this module in a new WebAssembly instance, so nothing stays in memory between requests.
import { json, log } from '@svc/guest';

export default {
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    if (request.method === 'GET' && pathname === '__PREFIX__/hello') {
      log.info('hello', { path: pathname });
      return json({ hello: '__NAME__', request: env.SVC_REQUEST_ID });
    }
    return json({ title: 'Not found' }, { status: 404 });
  },
};
