// fast-json-stable-stringify
import stringify from 'fast-json-stable-stringify';
import { checks } from '../checks.js';

export default checks({
  'order': () => stringify({ b: 1, a: [{ d: 1, c: null }] }),
});
