// deepmerge
import deepmerge from 'deepmerge';
import { checks } from '../checks.js';

export default checks({
  'merge': () => deepmerge({ a: [1], b: { c: 1 } }, { a: [2], b: { d: 2 } }),
});
