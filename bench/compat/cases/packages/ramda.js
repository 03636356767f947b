// ramda
import * as R from 'ramda';
import { checks } from '../checks.js';

export default checks({
  'pipe': () => R.pipe(R.filter((n) => n % 2), R.map(R.multiply(3)), R.sum)([1, 2, 3]),
  'lenses': () => R.over(R.lensPath(['a', 0, 'b']), R.inc, { a: [{ b: 1 }] }),
  'collections': () => [R.groupBy(R.length, ['a', 'bb', 'c']), R.sortWith([R.descend(R.prop('n'))], [{ n: 1 }, { n: 2 }])],
});
