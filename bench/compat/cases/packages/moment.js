// moment
import moment from 'moment';
import { checks } from '../checks.js';

export default checks({
  'format': () => [moment.utc(0).add(1, 'month').format('dddd, MMMM Do YYYY'), moment.duration(90, 'minutes').humanize(), moment.utc('2026-11-28').isBefore('2026-12-01')],
});
