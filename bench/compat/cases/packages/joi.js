// joi
import Joi from 'joi';
import { checks } from '../checks.js';

const user = Joi.object({ name: Joi.string().min(2).required(), email: Joi.string().email({ tlds: false }), n: Joi.number().integer() });

export default checks({
  'valid': () => user.validate({ name: 'Ada', email: 'ada@a.example', n: '4' }),
  'invalid': () => user.validate({ name: 'A', email: 'no' }, { abortEarly: false }).error.details.map(({ message }) => message),
  'alternatives': () => Joi.alternatives(Joi.number(), Joi.boolean()).validate('true').value,
});
