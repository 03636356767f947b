// find-my-way
import Router from 'find-my-way';
import { checks } from '../checks.js';

export default checks({
  'route': () => { const router = Router(); router.on('GET', '/shop/:id(^\\d+)', () => 'found'); const { params, handler } = router.find('GET', '/shop/7'); return [params, handler(), router.find('GET', '/shop/x')]; },
});
