// neverthrow
import { err, ok, ResultAsync } from 'neverthrow';
import { checks } from '../checks.js';

export default checks({
  'results': () => [ok(2).map((n) => n * 2).unwrapOr(0), err('no').orElse((text) => ok(`${text}!`)).value],
  'async': async () => (await ResultAsync.fromPromise(Promise.reject(new Error('no')), ({ message }) => message)).error,
});
