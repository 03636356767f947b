module.exports = require('../fs.cjs').promises;
