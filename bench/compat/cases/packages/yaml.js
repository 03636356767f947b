// yaml
import { parse, parseDocument, stringify } from 'yaml';
import { checks } from '../checks.js';

export default checks({
  'parse': () => parse('a: &x\n  - 1\n  - "ü"\nb: *x\nc: |\n  two\n  lines\nd: {e: null, f: 1e3}\n'),
  'stringify': () => stringify({ a: ['x: y', true], b: { c: 'two\nlines' } }),
  'errors': () => parseDocument('a: [1').errors.map(({ code }) => code),
});
