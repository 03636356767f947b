// chalk
import { Chalk } from 'chalk';
import { checks } from '../checks.js';

export default checks({
  'colors': () => new Chalk({ level: 1 }).red.bold('tea') + new Chalk({ level: 0 }).red('tea'),
});
