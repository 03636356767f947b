// iron-session
import { getIronSession, sealData, unsealData } from 'iron-session';
import { checks } from '../checks.js';

const password = 'p'.repeat(40);

export default checks({
  'seal': async () => unsealData(await sealData({ user: 'ada' }, { password }), { password }),
  'wrong password': async () => unsealData(await sealData({ user: 'ada' }, { password }), { password: 'q'.repeat(40) }),
  'session': async () => {
    const options = { password, cookieName: 'session' };
    const response = new Response();
    const session = await getIronSession(new Request('http://a.example/'), response, options);
    session.user = 'ada';
    await session.save();
    const [pair] = response.headers.get('set-cookie').split(';');
    const request = new Request('http://a.example/', { headers: { cookie: pair } });
    return (await getIronSession(request, new Response(), options)).user;
  },
});
