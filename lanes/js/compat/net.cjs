// node:net: addresses. Sockets are lacking.
function isIPv4(text) {
  return /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}$/.test(text);
}

function isIPv6(text) {
  return /^[\da-f:.]+(?:%[\w.-]+)?$/i.test(text) && URL.canParse(`http://[${text.replace(/%.*/, '')}]/`);
}

module.exports = { isIPv4, isIPv6, isIP: (text) => (isIPv4(text) ? 4 : isIPv6(text) ? 6 : 0) };
