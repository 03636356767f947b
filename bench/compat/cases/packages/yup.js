// yup
import * as yup from 'yup';
import { checks } from '../checks.js';

const user = yup.object({ name: yup.string().required().min(2), age: yup.number().integer().positive(), born: yup.date() });

export default checks({
  'cast': () => user.cast({ name: 'Ada', age: '36', born: '1815-12-10T00:00:00Z' }),
  'errors': () => user.validate({ name: '', age: -1 }, { abortEarly: false }).catch((error) => error.errors.toSorted()),
  'nested': async () => (await yup.array(user).isValid([{ name: 'Ada' }, {}])),
});
