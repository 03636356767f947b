// path-to-regexp
import { compile, match, parse } from 'path-to-regexp';
import { checks } from '../checks.js';

export default checks({
  'match': () => [match('/users/:id{/:action}')('/users/%C3%BC/edit'), match('/files/*path')('/files/a/b').params],
  'compile': () => compile('/users/:id')({ id: 'a b' }),
  'parse': () => parse('/a/:b').tokens.length,
});
