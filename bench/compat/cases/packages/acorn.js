// acorn
import { parse } from 'acorn';
import { checks } from '../checks.js';

export default checks({
  'parse': () => parse('const a = (b) => b ?? 1', { ecmaVersion: 'latest' }).body[0].declarations[0].init.type,
});
