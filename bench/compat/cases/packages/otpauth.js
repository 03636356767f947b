// otpauth
import { TOTP } from 'otpauth';
import { checks } from '../checks.js';

export default checks({
  'codes': () => { const totp = new TOTP({ secret: 'JBSWY3DPEHPK3PXP', issuer: 'shop' }); return [totp.generate({ timestamp: 1e12 }), totp.validate({ token: '000000', timestamp: 1e12 }), totp.toString()]; },
});
