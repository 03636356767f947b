// base64-js
import { fromByteArray, toByteArray } from 'base64-js';
import { checks } from '../checks.js';

export default checks({
  'round trip': () => [fromByteArray(new Uint8Array([1, 255, 3])), [...toByteArray('Af8D')]],
});
