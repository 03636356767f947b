// lodash
import _ from 'lodash';
import { checks } from '../checks.js';

export default checks({
  'collections': () => [_.groupBy([6.1, 4.2, 6.3], Math.floor), _.sortBy([{ a: 2 }, { a: 1 }], 'a'), _.chunk([1, 2, 3], 2)],
  'objects': () => [_.merge({ a: { b: 1 } }, { a: { c: 2 } }), _.get({ a: [{ b: 3 }] }, 'a[0].b'), _.isEqual({ a: [1] }, { a: [1] })],
  'strings': () => [_.camelCase('foo bar-ü'), _.deburr('déjà vu'), _.words('fred, barney & pebbles'), _.template('<%= a %>!')({ a: 'x' })],
  'functions': () => [_.flow([(x) => x + 1, (x) => x * 2])(3), _.memoize((x) => x * x)(4), _.curry((a, b) => a + b)(1)(2)],
  'clone': () => _.cloneDeep({ date: new Date(0), set: [...new Set([1])], nested: { list: [1, { a: 2 }] } }),
});
