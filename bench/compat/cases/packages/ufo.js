// ufo
import { joinURL, parseURL, withQuery } from 'ufo';
import { checks } from '../checks.js';

export default checks({
  'urls': () => [joinURL('a/', '/b', '../c'), withQuery('/x?a=1', { b: [1, 2] }), parseURL('https://a.example/b?c#d').pathname],
});
