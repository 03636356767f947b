// pino
import pino from 'pino/browser.js';
import { checks } from '../checks.js';

export default checks({
  'records': () => {
    const seen = [];
    const logger = pino({ level: 'debug', browser: { asObject: true, write: ({ level, msg, a }) => seen.push([level, msg, a]) } });
    logger.child({ a: 1 }).warn({ a: 2 }, 'slow %s', 'order');
    logger.trace('hidden');
    return [seen, logger.isLevelEnabled('info')];
  },
});
