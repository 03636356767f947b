// validator
import validator from 'validator';
import { checks } from '../checks.js';

export default checks({
  'checks': () => [validator.isEmail('ada@shop.example'), validator.isIBAN('DE89370400440532013000'), validator.escape('<b>'), validator.isMobilePhone('+4915112345678', 'de-DE')],
});
