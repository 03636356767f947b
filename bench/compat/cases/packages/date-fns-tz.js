// date-fns-tz
import { formatInTimeZone, fromZonedTime, getTimezoneOffset, toZonedTime } from 'date-fns-tz';
import { checks } from '../checks.js';

const moment = new Date('2026-07-01T12:00:00Z');

export default checks({
  'format': () => ['Europe/Berlin', 'America/New_York', 'Asia/Kolkata'].map((zone) => formatInTimeZone(moment, zone, 'yyyy-MM-dd HH:mm:ss xxx')),
  'convert': () => [fromZonedTime('2026-03-29 03:30', 'Europe/Berlin').toISOString(), toZonedTime(moment, 'Asia/Tokyo').getHours()],
  'offset': () => [getTimezoneOffset('Europe/Berlin', moment), getTimezoneOffset('Europe/Berlin', new Date('2026-01-01'))],
});
