// html-to-text
import { convert } from 'html-to-text';
import { checks } from '../checks.js';

export default checks({
  'text': () => convert('<h1>Tea</h1><p>Hot &amp; <a href="https://a.example">good</a></p><ul><li>one<li>two</ul>', { wordwrap: 40 }),
});
