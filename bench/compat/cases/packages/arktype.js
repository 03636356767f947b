// arktype
import { type } from 'arktype';
import { checks } from '../checks.js';

const user = type({ name: 'string > 1', 'age?': 'number.integer >= 0', tags: 'string[]' });

export default checks({
  'valid': () => user({ name: 'Ada', age: 3, tags: ['x'] }),
  'invalid': () => user({ name: 'A', age: 1.5, tags: [1] }).summary,
  'morph': () => type('string.numeric.parse')('42'),
});
