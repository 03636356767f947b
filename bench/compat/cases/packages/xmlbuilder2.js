// xmlbuilder2
import { create } from 'xmlbuilder2';
import { checks } from '../checks.js';

export default checks({
  'build': () => create({ version: '1.0' }).ele('a', { x: 'ü' }).ele('b').txt('1 < 2').up().up().end({ prettyPrint: true }),
});
