// fastest-levenshtein
import { closest, distance } from 'fastest-levenshtein';
import { checks } from '../checks.js';

export default checks({
  'distance': () => [distance('kitten', 'sitting'), closest('tee', ['tea', 'coffee'])],
});
