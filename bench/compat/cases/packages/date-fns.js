// date-fns
import { add, differenceInCalendarDays, eachDayOfInterval, format, formatDistance, parseISO, startOfWeek } from 'date-fns';
import { de } from 'date-fns/locale';
import { checks } from '../checks.js';

const day = new Date(2026, 2, 1, 9, 5, 7);

export default checks({
  'format': () => [format(day, 'yyyy-MM-dd HH:mm:ss'), format(day, 'PPPP'), format(day, 'EEEE, d. MMMM', { locale: de })],
  'arithmetic': () => [format(add(day, { months: 1, days: -1 }), 'yyyy-MM-dd'), differenceInCalendarDays(day, new Date(2026, 0, 1))],
  'distance': () => formatDistance(day, new Date(2026, 4, 1), { addSuffix: true, locale: de }),
  'weeks': () => [startOfWeek(day, { weekStartsOn: 1 }).getDate(), eachDayOfInterval({ start: day, end: add(day, { days: 2 }) }).length],
  'parse': () => parseISO('2026-03-01T10:00:00Z').toISOString(),
});
