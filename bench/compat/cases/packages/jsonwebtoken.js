// jsonwebtoken
import jwt from 'jsonwebtoken';
import { checks } from '../checks.js';

export default checks({
  'sign': () => jwt.sign({ sub: 'ada', iat: 1 }, 'secret'),
  'verify': () => jwt.verify(jwt.sign({ sub: 'ada', iat: 1 }, 'secret'), 'secret'),
  'decode': () => jwt.decode(jwt.sign({ a: 1, iat: 1 }, 'secret'), { complete: true }).header,
});
