// Package wasi is the canonical ABI of the parts of WASI 0.2 that the guest library uses: wasi:http, wasi:io.
//
// It has Go values on its upper side and handles, pointers and lengths on its lower one. What the host returns
// lies in memory of the component's adapter, which is used again soon: every function here copies it at once.
// On systems other than wasip1 the package is empty.
package wasi
