// qs
import qs from 'qs';
import { checks } from '../checks.js';

export default checks({
  'parse': () => qs.parse('a[b][c]=1&d[]=2&d[]=3&e=%C3%BC&f.g=4', { allowDots: true }),
  'stringify': () => [qs.stringify({ a: { b: [1, 2] }, c: 'ü &' }), qs.stringify({ a: [1, 2] }, { arrayFormat: 'brackets', encode: false })],
});
