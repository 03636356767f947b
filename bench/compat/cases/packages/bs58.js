// bs58
import bs58 from 'bs58';
import { checks } from '../checks.js';

export default checks({
  'round trip': () => [bs58.encode(new Uint8Array([0, 1, 255])), [...bs58.decode('15R')]],
});
