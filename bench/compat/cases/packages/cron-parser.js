// cron-parser
import { CronExpressionParser } from 'cron-parser';
import { checks } from '../checks.js';

export default checks({
  'next': () => { const times = CronExpressionParser.parse('*/20 8 * * 1-5', { currentDate: '2026-11-28T10:00:00Z', tz: 'Europe/Berlin' }); return [1, 2, 3].map(() => times.next().toISOString()); },
});
