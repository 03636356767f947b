// postal-mime
import PostalMime from 'postal-mime';
import { checks } from '../checks.js';

export default checks({
  'mail': async () => { const { subject, from, text, attachments } = await PostalMime.parse('From: Ada <ada@shop.example>\r\nSubject: =?utf-8?B?VGVlIMO8?=\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nhot\r\n--b\r\nContent-Disposition: attachment; filename=a.txt\r\n\r\nfile\r\n--b--\r\n'); return [subject, from, text, attachments.map(({ filename }) => filename)]; },
});
