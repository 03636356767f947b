module.exports = require('../timers.cjs').promises;
