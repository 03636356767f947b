// luxon
import { DateTime, Duration, Interval } from 'luxon';
import { checks } from '../checks.js';

const moment = DateTime.fromISO('2026-03-29T00:30:00Z');

export default checks({
  'parse and print': () => [moment.toUTC().toISO(), DateTime.fromFormat('24.12.2025 18:00', 'dd.MM.yyyy HH:mm', { zone: 'utc' }).toISO()],
  'time zones': () => [moment.setZone('Europe/Berlin').plus({ hours: 1 }).toISO(), moment.setZone('America/New_York').toFormat('yyyy-MM-dd HH:mm ZZ')],
  'locales': () => moment.toUTC().setLocale('de').toFormat('cccc, d. MMMM yyyy'),
  'durations': () => [Duration.fromISO('PT2H30M').as('minutes'), moment.diff(moment.minus({ days: 3 }), 'days').toObject()],
  'intervals': () => Interval.after(moment.toUTC(), { days: 2 }).splitBy({ days: 1 }).map(String),
});
