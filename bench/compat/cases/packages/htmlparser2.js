// htmlparser2
import { Parser, parseDocument } from 'htmlparser2';
import { checks } from '../checks.js';

export default checks({
  'events': () => { const names = []; const parser = new Parser({ onopentag: (name, attributes) => names.push([name, attributes]) }); parser.end('<a href=x><b class="y">t'); return [names, parseDocument('<p>a').children.length]; },
});
