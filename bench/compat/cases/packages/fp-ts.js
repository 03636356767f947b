// fp-ts
import { either, function as functions, option } from 'fp-ts';
import { checks } from '../checks.js';

export default checks({
  'pipe': () => [functions.pipe(either.right(2), either.map((n) => n + 1)), functions.pipe(option.none, option.getOrElse(() => 'none'))],
});
