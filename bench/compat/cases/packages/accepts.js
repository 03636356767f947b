// accepts
import accepts from 'accepts';
import { checks } from '../checks.js';

const request = { headers: { accept: 'text/html;q=0.9, application/json', 'accept-language': 'en-US, de;q=0.8', 'accept-encoding': 'gzip' } };

export default checks({
  'types and languages': () => { const of = accepts(request); return [of.type(['json', 'html']), of.languages(['de', 'en']), of.encodings(['gzip', 'identity'])]; },
});
