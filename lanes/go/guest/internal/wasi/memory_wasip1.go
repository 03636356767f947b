package wasi

import (
	"runtime"
	"unsafe"
)

// arena is the memory for results of the host. The adapter has the same size. Its start is aligned.
var arena struct {
	_     [0]uint64
	bytes [512 << 10]byte
}

// The adapter calls this while Go's runtime starts, so it must not grow the stack.
//
//go:wasmexport svc_arena
//go:nosplit
func arenaAddress() unsafe.Pointer { return unsafe.Pointer(&arena) }

// area receives the results that a host function returns through memory, at most 56 bytes.
// All calls share it: a call and the reading of its results are never interrupted as long as nothing
// is allocated in between.
var area struct {
	_     [0]uint64
	bytes [64]byte
}

func results() unsafe.Pointer { return unsafe.Pointer(&area.bytes) }

func byteAt(offset uintptr) byte     { return area.bytes[offset] }
func int32At(offset uintptr) int32   { return *(*int32)(unsafe.Add(results(), offset)) }
func uint32At(offset uintptr) uint32 { return *(*uint32)(unsafe.Add(results(), offset)) }
func uint64At(offset uintptr) uint64 { return *(*uint64)(unsafe.Add(results(), offset)) }

// hosted returns a view of the host's result; it is valid until the host writes half a megabyte more.
func hosted(pointer, size uint32) []byte {
	if size == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(uintptr(pointer))), size)
}

func textAt(offset uintptr) string {
	return string(hosted(uint32At(offset), uint32At(offset+4)))
}

// Header is a header field.
type Header struct {
	Name  string
	Value string
}

// entry is list<tuple<string, list<u8>>>'s item.
type entry struct {
	name, nameSize, value, valueSize uint32
}

func address(text string) uint32 {
	return uint32(uintptr(unsafe.Pointer(unsafe.StringData(text))))
}

// newFields creates a fields resource; ok is false if the host rejects a name or a value.
func newFields(headers []Header) (fields int32, ok bool) {
	if len(headers) == 0 {
		return fieldsNew(), true
	}
	list := make([]entry, len(headers))
	for i, header := range headers {
		list[i] = entry{address(header.Name), uint32(len(header.Name)), address(header.Value), uint32(len(header.Value))}
	}
	fieldsFromList(unsafe.Pointer(&list[0]), uint32(len(list)), results())
	failed, fields := byteAt(0) != 0, int32At(4)
	runtime.KeepAlive(headers)
	return fields, !failed
}

// takeFields reads a fields resource and drops it.
func takeFields(fields int32) []Header {
	fieldsEntries(fields, results())
	pointer, count := uint32At(0), uint32At(4)
	var headers []Header
	if count > 0 {
		entries := unsafe.Slice((*entry)(unsafe.Pointer(uintptr(pointer))), count)
		size := 0
		for _, item := range entries {
			size += int(item.nameSize + item.valueSize)
		}
		// All names and values share one allocation.
		bytes := make([]byte, 0, size)
		headers = make([]Header, count)
		text := unsafe.String(unsafe.SliceData(bytes), size)
		for i, item := range entries {
			begin := len(bytes)
			bytes = append(bytes, hosted(item.name, item.nameSize)...)
			middle := len(bytes)
			bytes = append(bytes, hosted(item.value, item.valueSize)...)
			headers[i] = Header{text[begin:middle], text[middle:len(bytes)]}
		}
	}
	fieldsDrop(fields)
	return headers
}
