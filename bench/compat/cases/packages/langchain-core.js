// @langchain/core
import { ChatPromptTemplate } from '@langchain/core/prompts';
import { RunnableLambda } from '@langchain/core/runnables';
import { checks } from '../checks.js';

export default checks({
  'prompt and chain': async () => { const chain = ChatPromptTemplate.fromMessages([['system', 'You make {drink}.'], ['human', '{text}']]).pipe(RunnableLambda.from(({ messages }) => messages.map(({ content }) => content))); return chain.invoke({ drink: 'tea', text: 'hi' }); },
});
