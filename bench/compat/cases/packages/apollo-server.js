// @apollo/server
import { ApolloServer } from '@apollo/server';
import { checks } from '../checks.js';

const server = new ApolloServer({
  typeDefs: 'type Query { tea(name: String!): String }',
  resolvers: { Query: { tea: (_, { name }) => `tea for ${name}` } },
});

export default checks({
  'operation': async () => {
    const { body } = await server.executeOperation({ query: '{ tea(name: "Ann") }' });
    return body.singleResult.data;
  },
  'error': async () => {
    const { body } = await server.executeOperation({ query: '{ milk }' });
    return body.singleResult.errors.map(({ message }) => message);
  },
});
