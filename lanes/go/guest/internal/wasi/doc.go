// Package wasi is the canonical ABI of the parts of WASI 0.2 that the guest library uses: wasi:http, wasi:io.
//
// Callers pass Go values; the host receives handles, pointers and lengths. Results of the host
// are in memory of the component's adapter, which is soon reused: every function here copies them at once.
// On systems other than wasip1 the package is empty.
package wasi
