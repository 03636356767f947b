// pretty-ms
import prettyMilliseconds from 'pretty-ms';
import { checks } from '../checks.js';

export default checks({
  'format': () => [prettyMilliseconds(1337000000), prettyMilliseconds(95500, { compact: true })],
});
