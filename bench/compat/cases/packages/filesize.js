// filesize
import { filesize } from 'filesize';
import { checks } from '../checks.js';

export default checks({
  'sizes': () => [filesize(1536), filesize(265318, { standard: 'jedec' }), filesize(1e9, { locale: 'de' })],
});
