// fast-json-patch
import patch from 'fast-json-patch';
import { checks } from '../checks.js';

export default checks({
  'compare and apply': () => { const changes = patch.compare({ a: 1, b: [1] }, { a: 2, b: [1, 2] }); return [changes, patch.applyPatch({ a: 1, b: [1] }, changes).newDocument]; },
});
