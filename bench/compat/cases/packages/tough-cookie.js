// tough-cookie
import { CookieJar } from 'tough-cookie';
import { checks } from '../checks.js';

export default checks({
  'jar': async () => { const jar = new CookieJar(); await jar.setCookie('a=b; Path=/; Secure', 'https://shop.example/x'); return [await jar.getCookieString('https://shop.example/'), await jar.getCookieString('http://shop.example/')]; },
});
