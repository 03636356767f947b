// p-limit
import pLimit from 'p-limit';
import { checks } from '../checks.js';

export default checks({
  'concurrency': async () => {
    const limit = pLimit(2);
    let active = 0, most = 0;
    const work = async (n) => {
      most = Math.max(most, ++active);
      await new Promise((resolve) => setTimeout(resolve, 2));
      active--;
      return n;
    };
    return [await Promise.all([1, 2, 3, 4].map((n) => limit(work, n))), most];
  },
});
