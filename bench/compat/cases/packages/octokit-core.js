// @octokit/core
import { Octokit } from '@octokit/core';
import { checks } from '../checks.js';

export default checks({
  'request': async (env) => { const { data, status } = await new Octokit({ baseUrl: env.UPSTREAM, auth: 'x' }).request('POST /repos/{owner}/issues', { owner: 'ada', title: 'tea' }); return [status, data.path, data.body]; },
});
