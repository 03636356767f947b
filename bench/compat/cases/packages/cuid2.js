// @paralleldrive/cuid2
import { createId, isCuid } from '@paralleldrive/cuid2';
import { checks } from '../checks.js';

export default checks({
  'ids': () => [createId().length, isCuid(createId())],
});
