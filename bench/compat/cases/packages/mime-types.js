// mime-types
import mime from 'mime-types';
import { checks } from '../checks.js';

export default checks({
  'types': () => [mime.lookup('a.svg'), mime.contentType('page.html'), mime.extension('image/jpeg')],
});
