// libphonenumber-js
import { AsYouType, parsePhoneNumberFromString } from 'libphonenumber-js';
import { checks } from '../checks.js';

export default checks({
  'numbers': () => { const number = parsePhoneNumberFromString('030 901820', 'DE'); return [number.formatInternational(), number.isValid(), new AsYouType('US').input('2133734253')]; },
});
