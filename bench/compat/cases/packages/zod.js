// zod
import { z } from 'zod';
import { checks } from '../checks.js';

const user = z.object({
  name: z.string().min(2).trim(),
  email: z.email(),
  age: z.coerce.number().int().positive().optional(),
  tags: z.array(z.enum(['a', 'b'])).default([]),
});

export default checks({
  'parse': () => user.parse({ name: ' Ada ', email: 'ada@a.example', age: '36' }),
  'issues': () => user.safeParse({ name: 'x', email: 'no', age: -1, tags: ['c'] }).error.issues,
  'JSON Schema': () => z.toJSONSchema(user),
  'transform and refine': async () => {
    const schema = z.string().transform(Number).refine(async (value) => value > 3, 'too small');
    return [(await schema.safeParseAsync('4')).data, (await schema.safeParseAsync('2')).error.issues[0].message];
  },
  'discriminated union': () =>
    z.discriminatedUnion('type', [z.object({ type: z.literal('a'), n: z.number() }), z.object({ type: z.literal('b') })])
      .safeParse({ type: 'a', n: 'x' }).error.issues,
});
