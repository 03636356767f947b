// croner
import { Cron } from 'croner';
import { checks } from '../checks.js';

export default checks({
  'next': () => new Cron('0 0 3 * * *', { timezone: 'America/New_York', paused: true }).nextRuns(3, '2026-10-30T00:00:00Z').map((date) => date.toISOString()),
});
