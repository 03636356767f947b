// caches: those of a host that evicts each response at once.
import { defineMissing } from './define.js';

function requestOf(input) {
  return input instanceof Request ? input : new Request(input);
}

class Cache {
  async match(input) { return void requestOf(input); }
  async put(input, response) {
    if (requestOf(input).method !== 'GET') throw new TypeError('Cache.put: the method of the request is not GET');
    if (response.status === 206 || response.headers.get('vary') === '*') throw new TypeError('Cache.put: the response is partial, or varies always');
    await response.body?.cancel();
  }
  async delete(input) { return !requestOf(input); }
}

class CacheStorage {
  async open() { return new Cache(); }
  async match() {}
  async has() { return false; }
  async delete() { return false; }
  async keys() { return []; }
}

const caches = new CacheStorage();
caches.default = new Cache();
defineMissing(globalThis, { Cache, CacheStorage, caches });
