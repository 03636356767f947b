// cookie
import * as cookie from 'cookie';
import { checks } from '../checks.js';

const { parseCookie = cookie.parse, stringifySetCookie } = cookie;

export default checks({
  'parse': () => ({ ...parseCookie('a=1; b="x y"; c=%C3%BC') }),
  'set': () => stringifySetCookie({ name: 'a', value: 'ü', httpOnly: true, maxAge: 60, sameSite: 'lax', path: '/' }),
});
