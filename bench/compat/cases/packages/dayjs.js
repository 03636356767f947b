// dayjs
import dayjs from 'dayjs';
import de from 'dayjs/locale/de.js';
import duration from 'dayjs/plugin/duration.js';
import relativeTime from 'dayjs/plugin/relativeTime.js';
import timezone from 'dayjs/plugin/timezone.js';
import utc from 'dayjs/plugin/utc.js';
import { checks } from '../checks.js';

for (const plugin of [duration, relativeTime, timezone, utc]) dayjs.extend(plugin);
const day = dayjs.utc('2026-03-01T10:00:00Z');

export default checks({
  'format': () => [day.format('YYYY-MM-DD HH:mm'), day.locale(de).format('dddd, D. MMMM')],
  'arithmetic': () => [day.add(1, 'month').endOf('month').format('YYYY-MM-DD'), day.diff('2026-01-01', 'day')],
  'relative': () => [day.from(day.add(3, 'hour')), dayjs.duration(100, 'minutes').humanize()],
  'time zones': () => [day.tz('Europe/Berlin').format('YYYY-MM-DD HH:mm Z'), dayjs.tz('2026-07-01 12:00', 'America/New_York').toISOString()],
});
