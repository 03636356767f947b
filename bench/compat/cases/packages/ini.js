// ini
import ini from 'ini';
import { checks } from '../checks.js';

export default checks({
  'round trip': () => [ini.parse('a=1\n[b.c]\nd[]=x\nd[]=y'), ini.stringify({ a: 1, b: { c: 'x y' } })],
});
