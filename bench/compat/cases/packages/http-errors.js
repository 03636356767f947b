// http-errors
import createError from 'http-errors';
import { checks } from '../checks.js';

export default checks({
  'errors': () => { const error = createError(404, 'no tea', { extra: 1 }); return [error.status, error.message, error.expose, error.extra, createError.isHttpError(error), new createError.Conflict().message]; },
});
