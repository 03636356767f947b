// sqids
import Sqids from 'sqids';
import { checks } from '../checks.js';

export default checks({
  'ids': () => { const sqids = new Sqids({ minLength: 8 }); return [sqids.encode([1, 2, 3]), sqids.decode(sqids.encode([4, 5]))]; },
});
