// @scure/base
import { base32, bech32, utf8 } from '@scure/base';
import { checks } from '../checks.js';

export default checks({
  'encodings': () => [base32.encode(utf8.decode('tea')), bech32.encode('tea', bech32.toWords(new Uint8Array([1, 2])))],
});
