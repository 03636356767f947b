// cross-fetch
import fetch from 'cross-fetch';
import { checks } from '../checks.js';

export default checks({
  'get': async (env) => (await (await fetch(`${env.UPSTREAM}/echo?a=1`)).json()).path,
});
