// mime
import mime from 'mime';
import { checks } from '../checks.js';

export default checks({
  'types': () => [mime.getType('a/b.JPEG'), mime.getType('x.wasm'), mime.getExtension('text/html; charset=utf-8'), mime.getType('nothing')],
});
