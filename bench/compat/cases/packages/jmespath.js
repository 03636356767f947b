// jmespath
import jmespath from 'jmespath';
import { checks } from '../checks.js';

export default checks({
  'search': () => jmespath.search({ a: [{ n: 1 }, { n: 3 }] }, 'a[?n > `1`].n | [0]'),
});
