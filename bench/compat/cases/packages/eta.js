// eta
import { Eta } from 'eta';
import { checks } from '../checks.js';

const eta = new Eta();

export default checks({
  'template': () => eta.renderString('<% for (const each of it.rows) { %><li><%= each %></li><% } %>', { rows: ['a<b', 'ü'] }),
  'named template': () => {
    eta.loadTemplate('@row', '<b><%= it.name %></b>');
    return eta.renderString('<%~ include("@row", { name: "tea" }) %>', {});
  },
  'async': () => eta.renderStringAsync('<%= await it.later %>', { later: Promise.resolve('tea') }),
});
