// http-status-codes
import { getReasonPhrase, StatusCodes } from 'http-status-codes';
import { checks } from '../checks.js';

export default checks({
  'phrases': () => [getReasonPhrase(418), StatusCodes.CREATED],
});
