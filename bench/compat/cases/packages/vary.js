// vary
import vary from 'vary';
import { checks } from '../checks.js';

export default checks({
  'append': () => vary.append('Accept, User-Agent', 'Origin'),
});
