// class-transformer
import { instanceToPlain, plainToInstance } from 'class-transformer';
import { checks } from '../checks.js';

export default checks({
  'instances': () => { class User { greet() { return `hi ${this.name}`; } } const user = plainToInstance(User, { name: 'Ada' }); return [user.greet(), instanceToPlain(user)]; },
});
