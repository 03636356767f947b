// content-type
import * as type from 'content-type';
import { checks } from '../checks.js';

export default checks({
  'parse': () => { const { parse } = type.default ?? type; return parse('text/html; charset=utf-8; q="a b"'); },
});
