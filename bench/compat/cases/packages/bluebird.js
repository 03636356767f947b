// bluebird
import Bluebird from 'bluebird';
import { checks } from '../checks.js';

export default checks({
  'map and reduce': async () => [await Bluebird.map([1, 2, 3], (n) => n * 2, { concurrency: 2 }), await Bluebird.reduce([1, 2, 3], (a, b) => a + b, 0)],
  'timeout': () => Bluebird.delay(1000).timeout(5).catch(Bluebird.TimeoutError, (error) => error.name),
});
