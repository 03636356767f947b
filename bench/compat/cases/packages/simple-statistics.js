// simple-statistics
import { linearRegression, median, standardDeviation } from 'simple-statistics';
import { checks } from '../checks.js';

export default checks({
  'numbers': () => [median([3, 1, 2]), standardDeviation([2, 4, 4, 4, 5, 5, 7, 9]), linearRegression([[0, 1], [1, 3]])],
});
