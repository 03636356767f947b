// content-disposition
import { create, parse } from 'content-disposition';
import { checks } from '../checks.js';

export default checks({
  'format and parse': () => { const text = create('plans €.pdf'); return [text, parse(text)]; },
});
