// ulid
import { decodeTime, monotonicFactory, ulid } from 'ulid';
import { checks } from '../checks.js';

export default checks({
  'identifiers': () => [ulid().length, decodeTime(ulid(1469918176385))],
  'monotonic': () => {
    const next = monotonicFactory();
    return next(1) < next(1);
  },
});
