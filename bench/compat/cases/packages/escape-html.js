// escape-html
import escape from 'escape-html';
import { checks } from '../checks.js';

export default checks({
  'escape': () => escape('<a href="x">\'&'),
});
