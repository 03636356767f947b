// smol-toml
import { parse, stringify } from 'smol-toml';
import { checks, thrown } from '../checks.js';

export default checks({
  'parse': () => parse('a = 1\nb = "ü"\n[c]\nd = [1.5, 2]\nat = 2026-03-01T10:00:00Z\n[[e]]\nf = true\n'),
  'stringify': () => stringify({ a: 1, b: { c: ['x'] } }),
  'error': () => thrown(() => parse('a = ')),
});
