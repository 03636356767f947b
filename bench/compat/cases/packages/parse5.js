// parse5
import { parse, serialize } from 'parse5';
import { checks } from '../checks.js';

export default checks({
  'document': () => serialize(parse('<p>a<p>b<table><td>c')),
});
