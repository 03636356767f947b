// dotenv
import dotenv from 'dotenv';
import { checks } from '../checks.js';

export default checks({
  'parse': () => dotenv.parse('A=1\nB="two words" # note\nC=\'$A\'\nexport D=`x`'),
  'populate': () => {
    const target = { A: 'kept' };
    dotenv.populate(target, { A: 'new', B: '2' });
    return target;
  },
});
