// qrcode
import QRCode from 'qrcode';
import { checks } from '../checks.js';

export default checks({
  'SVG': () => QRCode.toString('https://a.example/', { type: 'svg' }),
  'modules': () => QRCode.create('tea').modules.size,
});
