// cborg
import { decode, encode } from 'cborg';
import { checks, hex } from '../checks.js';

export default checks({
  'encode': () => hex(encode({ a: 1, b: [true, null, 'ü'], c: 1.5, d: new Uint8Array([1, 2]) })),
  'decode': () => decode(encode({ list: [1, -1, 2 ** 40], nested: { a: 'b' } })),
});
