// devalue
import { parse, stringify, uneval } from 'devalue';
import { checks } from '../checks.js';

const value = { at: new Date(5), set: new Set([1]), big: 5n, text: '</script>', list: [, 1] };
value.self = value;

export default checks({
  'stringify': () => stringify(value),
  'parse': () => {
    const copy = parse(stringify(value));
    return [copy.self === copy, copy.at.getTime(), copy.list.length, 0 in copy.list];
  },
  'uneval': () => uneval({ a: 'x</script>', b: new Map([[1, 2]]) }),
});
