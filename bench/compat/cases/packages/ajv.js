// ajv, ajv-formats
import Ajv from 'ajv';
import addFormats from 'ajv-formats';
import { checks } from '../checks.js';

const schema = {
  type: 'object',
  properties: { name: { type: 'string', minLength: 2 }, at: { type: 'string', format: 'date-time' }, tags: { type: 'array', uniqueItems: true } },
  required: ['name'],
  additionalProperties: false,
};
const ajv = addFormats(new Ajv({ allErrors: true }));
const validate = ajv.compile(schema);

function errors(value) {
  return validate(value) ? [] : validate.errors.map(({ instancePath, message }) => [instancePath, message]);
}

export default checks({
  'valid': () => errors({ name: 'Ada', at: '2026-03-01T10:00:00Z', tags: [1, 2] }),
  'invalid': () => errors({ name: 'A', at: 'noon', tags: [1, 1], more: true }),
  'references': () => new Ajv().compile({ $defs: { n: { type: 'integer' } }, $ref: '#/$defs/n' })(1.5),
  'pattern': () => new Ajv().compile({ type: 'string', pattern: '^\\p{L}+$' })('Tée'),
});
