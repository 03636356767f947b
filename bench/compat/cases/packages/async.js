// async
import async from 'async';
import { checks } from '../checks.js';

export default checks({
  'mapLimit': () => async.mapLimit([3, 1, 2], 2, async (n) => n * 2),
  'queue': async () => { const seen = []; const queue = async.queue(async (n) => { seen.push(n); }, 1); queue.push([1, 2, 3]); await queue.drain(); return seen; },
  'auto': () => async.auto({ a: async () => 1, b: ['a', async ({ a }) => a + 1] }),
});
