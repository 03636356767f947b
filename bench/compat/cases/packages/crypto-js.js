// crypto-js
import CryptoJS from 'crypto-js';
import { checks } from '../checks.js';

export default checks({
  'hash and HMAC': () => [CryptoJS.SHA256('tea').toString(), CryptoJS.HmacSHA1('tea', 'key').toString(CryptoJS.enc.Base64), CryptoJS.MD5('tea').toString()],
  'AES': () => { const secret = CryptoJS.AES.encrypt('tea', 'password').toString(); return CryptoJS.AES.decrypt(secret, 'password').toString(CryptoJS.enc.Utf8); },
});
