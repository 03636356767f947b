// js-yaml
import * as yaml from 'js-yaml';
import { checks } from '../checks.js';

export default checks({
  'round trip': () => [yaml.load('a: &x [1, 2]\nb: *x\nc: 2026-11-28\n'), yaml.dump({ a: ['x', 'y: z'], b: null })],
});
