// oauth4webapi
import * as oauth from 'oauth4webapi';
import { checks, thrown } from '../checks.js';

export default checks({
  'PKCE': () => oauth.calculatePKCECodeChallenge('a'.repeat(43)),
  'errors': () => thrown(() => oauth.validateAuthResponse({ issuer: 'https://a.example' }, { client_id: 'a' }, new URLSearchParams('error=access_denied'), oauth.skipStateCheck)),
});
