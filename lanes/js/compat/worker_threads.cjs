// node:worker_threads: the one thread.
module.exports = { isMainThread: true, parentPort: null, workerData: null, threadId: 0, MessageChannel, MessagePort };
