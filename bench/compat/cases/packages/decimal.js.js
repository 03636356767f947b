// decimal.js
import Decimal from 'decimal.js';
import { checks } from '../checks.js';

export default checks({
  'arithmetic': () => [new Decimal('0.1').plus('0.2'), new Decimal(2).sqrt(), new Decimal(1).div(3).toFixed(30), Decimal.exp(1)].map(String),
  'random': () => Decimal.random(20).lt(1),
});
