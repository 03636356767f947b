// ua-parser-js
import { UAParser } from 'ua-parser-js';
import { checks } from '../checks.js';

export default checks({
  'browser': () => { const { browser, os } = new UAParser('Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0').getResult(); return [browser.name, browser.major, os.name]; },
});
