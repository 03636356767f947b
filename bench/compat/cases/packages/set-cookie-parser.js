// set-cookie-parser
import * as cookies from 'set-cookie-parser';
import { checks } from '../checks.js';

export default checks({
  'parse': () => cookies.parseSetCookie?.('a=b; Path=/; HttpOnly; Max-Age=5') ?? cookies.parse('a=b; Path=/; HttpOnly; Max-Age=5'),
});
