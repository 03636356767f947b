// @sinclair/typebox
import { Type } from '@sinclair/typebox';
import { TypeCompiler } from '@sinclair/typebox/compiler';
import { Value } from '@sinclair/typebox/value';
import { checks } from '../checks.js';

export default checks({
  'check': () => { const schema = Type.Object({ n: Type.Integer({ minimum: 1 }) }); return [Value.Check(schema, { n: 2 }), [...Value.Errors(schema, { n: 0 })].map(({ path, message }) => [path, message]), TypeCompiler.Compile(schema).Check({ n: 'x' })]; },
});
