// basic-auth
import auth from 'basic-auth';
import { checks } from '../checks.js';

export default checks({
  'credentials': () => auth.parse(`Basic ${Buffer.from('ada:s:3').toString('base64')}`),
});
