// entities
import { decodeHTML, encodeHTML, escapeUTF8 } from 'entities';
import { checks } from '../checks.js';

export default checks({
  'encode': () => [decodeHTML('&uuml;&#x41;&nope;'), encodeHTML('ü & <b>'), escapeUTF8('<ü>')],
});
