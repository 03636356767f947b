// iconv-lite
import iconv from 'iconv-lite';
import { checks } from '../checks.js';

export default checks({
  'encodings': () => [iconv.encode('Tee für Ü', 'latin1').toString('hex'), iconv.decode(Buffer.from('83658342', 'hex'), 'Shift_JIS'), iconv.encode('tea', 'utf16').length, iconv.encodingExists('gbk')],
});
