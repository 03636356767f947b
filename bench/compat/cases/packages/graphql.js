// graphql
import { buildSchema, graphql, parse, printSchema, validate } from 'graphql';
import { checks } from '../checks.js';

const schema = buildSchema('type Note { id: ID! text: String } type Query { note(id: ID!): Note notes: [Note!]! }');
const rootValue = { note: async ({ id }) => ({ id, text: 'tea' }), notes: () => [{ id: 1 }, { id: 2, text: 'ü' }] };

export default checks({
  'query': () => graphql({ schema, rootValue, source: 'query($id: ID!) { note(id: $id) { ...f } notes { id } } fragment f on Note { id text }', variableValues: { id: '7' } }),
  'errors': () => validate(schema, parse('{ nothing }')).map(({ message }) => message),
  'introspection': async () => (await graphql({ schema, source: '{ __type(name: "Note") { fields { name } } }' })).data,
  'print': () => printSchema(schema),
});
