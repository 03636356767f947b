// superjson
import superjson from 'superjson';
import { checks } from '../checks.js';

const value = { at: new Date(5), set: new Set([1]), map: new Map([['a', /b/g]]), big: 5n, none: undefined, url: new URL('http://a.example/'), nan: NaN };

export default checks({
  'stringify': () => superjson.stringify(value),
  'round trip': () => {
    const copy = superjson.parse(superjson.stringify(value));
    return [copy.at.getTime(), copy.set.has(1), copy.map.get('a').source, String(copy.big), 'none' in copy, copy.url.host, Number.isNaN(copy.nan)];
  },
});
