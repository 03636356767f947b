// remeda
import * as R from 'remeda';
import { checks } from '../checks.js';

export default checks({
  'pipe': () => R.pipe([{ a: 1 }, { a: 2 }, { a: 1 }], R.groupBy(({ a }) => String(a)), R.mapValues((rows) => rows.length)),
});
