// p-queue
import PQueue from 'p-queue';
import { checks } from '../checks.js';

export default checks({
  'queue': async () => {
    const seen = [], queue = new PQueue({ concurrency: 1 });
    await Promise.all([queue.add(() => seen.push('a')), queue.add(() => seen.push('b'), { priority: 1 }), queue.add(() => seen.push('c'), { priority: 2 })]);
    await queue.onIdle();
    return seen;
  },
});
