// mathjs
import { create, all } from 'mathjs';
import { checks } from '../checks.js';

export default checks({
  'evaluate': () => { const math = create(all); return [math.evaluate('sqrt(3^2 + 4^2)'), math.format(math.evaluate('12.7 cm to inch'), 6), math.det([[1, 2], [3, 4]]), math.derivative('x^2', 'x').toString()]; },
});
