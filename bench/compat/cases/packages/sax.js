// sax
import sax from 'sax';
import { checks } from '../checks.js';

export default checks({
  'events': () => { const seen = []; const parser = sax.parser(true); parser.onopentag = ({ name, attributes }) => seen.push([name, attributes]); parser.ontext = (text) => seen.push(text); parser.write('<a x="1">tea &amp; <b/></a>').close(); return seen; },
});
