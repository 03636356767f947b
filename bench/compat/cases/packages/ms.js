// ms
import ms from 'ms';
import { checks } from '../checks.js';

export default checks({
  'durations': () => [ms('2.5 hrs'), ms(60_000), ms(120_000, { long: true }), ms('-3 days')],
});
