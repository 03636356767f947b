// quick-lru
import QuickLRU from 'quick-lru';
import { checks } from '../checks.js';

export default checks({
  'evict': () => { const cache = new QuickLRU({ maxSize: 2 }); for (const n of [1, 2, 3, 4]) cache.set(n, n); return [cache.has(4), cache.size]; },
});
