// object-hash
import hash from 'object-hash';
import { checks } from '../checks.js';

export default checks({
  'hash': () => [hash({ b: 1, a: [2] }), hash({ a: [2], b: 1 }, { algorithm: 'md5' }), hash('x', { encoding: 'base64' })],
});
