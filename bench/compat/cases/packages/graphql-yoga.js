// graphql-yoga
import { createSchema, createYoga } from 'graphql-yoga';
import { checks } from '../checks.js';

const yoga = createYoga({
  logging: false,
  schema: createSchema({
    typeDefs: 'type Query { hello(name: String!): String! } type Subscription { count: Int! }',
    resolvers: {
      Query: { hello: (_, { name }) => `hello ${name}` },
      Subscription: {
        count: {
          async *subscribe() {
            for (let n = 1; n < 3; n++) yield { count: n };
          },
        },
      },
    },
  }),
});

function post(query, headers = {}) {
  return yoga.fetch('http://a.example/graphql', {
    method: 'POST', body: JSON.stringify({ query }), headers: { 'content-type': 'application/json', ...headers },
  });
}

export default checks({
  'query': async () => (await post('{ hello(name: "ü") }')).json(),
  'error': async () => {
    const response = await post('{ nothing }');
    return [response.status, (await response.json()).errors[0].message];
  },
  'GET': async () => (await yoga.fetch('http://a.example/graphql?query={hello(name:"a")}')).json(),
  'subscription': async () => (await post('subscription { count }', { accept: 'text/event-stream' })).text(),
});
