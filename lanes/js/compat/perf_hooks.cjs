// node:perf_hooks: the performance of the web platform.
module.exports = { performance, PerformanceEntry, PerformanceMark, PerformanceMeasure, constants: {} };
