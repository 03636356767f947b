// magic-string
import MagicString from 'magic-string';
import { checks } from '../checks.js';

export default checks({
  'source map': () => { const text = new MagicString('const a = 1;'); text.overwrite(6, 7, 'tea').append('\n'); return [text.toString(), text.generateMap({ source: 'a.js', hires: true }).mappings]; },
});
