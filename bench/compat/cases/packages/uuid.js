// uuid
import { parse, stringify, v1, v3, v4, v5, v7, validate, version } from 'uuid';
import { checks } from '../checks.js';

export default checks({
  'names': () => [v5('a.example', v5.DNS), v3('a.example', v3.DNS)],
  'random': () => [validate(v4()), new Set(Array.from({ length: 50 }, () => v4())).size, version(v4())],
  'times': () => [version(v1()), version(v7()), v7() < v7()],
  'bytes': () => stringify(parse('6ec0bd7f-11c0-43da-975e-2a8ad9ebae0b')),
});
