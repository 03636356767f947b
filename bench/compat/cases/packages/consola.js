// consola
import { createConsola } from 'consola/core';
import { checks } from '../checks.js';

export default checks({
  'records': () => {
    const seen = [];
    const logger = createConsola({ level: 4, reporters: [{ log: ({ type, args, tag }) => seen.push([type, args, tag]) }] });
    logger.withTag('shop').warn('slow', { a: 1 });
    logger.trace('hidden');
    return seen;
  },
});
