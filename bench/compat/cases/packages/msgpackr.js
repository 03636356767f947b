// msgpackr
import { Packr, pack, unpack } from 'msgpackr';
import { checks, hex } from '../checks.js';

export default checks({
  'pack': () => hex(pack({ a: 1, b: [true, null, 'ü'], c: 1.5, d: -300 })),
  'round trip': () => unpack(pack({ text: 'x'.repeat(300), list: Array.from({ length: 40 }, (_, n) => n) })),
  'records': () => {
    const packr = new Packr({ structuredClone: true });
    const copy = packr.unpack(packr.pack([{ a: new Map([[1, new Set([2])]]) }, { a: 2 }]));
    return [copy[0].a.get(1).has(2), copy[1].a];
  },
});
