// bcryptjs
import bcrypt from 'bcryptjs';
import { checks } from '../checks.js';

const HASH = '$2b$04$abcdefghijklmnopqrstuu5rFFg41AMTBKjkJPYBk0ANbyMB10vCi';

export default checks({
  'hash': () => bcrypt.hashSync('tea', '$2b$04$abcdefghijklmnopqrstuu'),
  'compare': async () => {
    const hash = await bcrypt.hash('tea', 4);
    return [await bcrypt.compare('tea', hash), await bcrypt.compare('coffee', hash), bcrypt.getRounds(HASH)];
  },
});
