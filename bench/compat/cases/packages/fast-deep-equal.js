// fast-deep-equal
import equal from 'fast-deep-equal/es6/index.js';
import { checks } from '../checks.js';

export default checks({
  'values': () => [equal({ a: [1, new Map([[1, 2]])] }, { a: [1, new Map([[1, 2]])] }), equal(new Set([1]), new Set([2])), equal(/a/g, /a/g), equal(NaN, NaN)],
});
