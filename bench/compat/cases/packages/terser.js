// terser
import { minify } from 'terser';
import { checks } from '../checks.js';

export default checks({
  'minify': async () => (await minify('function add(first, second) { return first + second; } console.log(add(1, 2));', { toplevel: true })).code,
});
