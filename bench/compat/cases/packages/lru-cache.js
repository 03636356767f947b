// lru-cache
import { LRUCache } from 'lru-cache';
import { checks } from '../checks.js';

export default checks({
  'eviction': () => {
    const cache = new LRUCache({ max: 2 });
    for (const name of ['a', 'b', 'c']) cache.set(name, name);
    return [cache.get('a') ?? null, cache.get('b'), cache.size, [...cache.keys()]];
  },
  'fetch': async () => {
    const cache = new LRUCache({ max: 5, ttl: 1000, fetchMethod: async (key) => `${key}!` });
    return [await cache.fetch('a'), cache.has('a')];
  },
});
