// json5
import JSON5 from 'json5';
import { checks } from '../checks.js';

export default checks({
  'parse': () => [JSON5.parse("{a: 'x', /* c */ b: [+1, .5,],}"), JSON5.stringify({ 'a-b': 1, c: 'x' })],
});
