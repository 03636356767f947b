// node-html-parser
import { parse } from 'node-html-parser';
import { checks } from '../checks.js';

export default checks({
  'query': () => { const root = parse('<ul><li class=a>1</li><li>2</li></ul>'); root.querySelector('li.a').setAttribute('id', 'x'); return [root.querySelectorAll('li').map((item) => item.text), root.toString()]; },
});
