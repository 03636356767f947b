// bignumber.js
import BigNumber from 'bignumber.js';
import { checks } from '../checks.js';

export default checks({
  'arithmetic': () => [new BigNumber('0.1').plus('0.2'), new BigNumber('1e40').plus(1).toFixed(), new BigNumber(10).pow(-3), new BigNumber('ff', 16)].map(String),
  'format': () => new BigNumber('1234567.891').toFormat(2),
});
