package guest

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
)

// gunzip decompresses a body, from its first read on.
type gunzip struct {
	body   io.ReadCloser
	reader *gzip.Reader
	err    error
}

func (g *gunzip) Read(to []byte) (int, error) {
	if g.reader == nil && g.err == nil {
		g.reader, g.err = gzip.NewReader(g.body)
	}
	if g.err != nil {
		return 0, g.err
	}
	return g.reader.Read(to)
}

func (g *gunzip) Close() error { return g.body.Close() }

// asksForGzip reports whether the transport requests gzip and decompresses it, as net/http does: if the program does
// not name an encoding, and does not request a range of bytes.
func asksForGzip(request *http.Request) bool {
	return request.Header.Get("Accept-Encoding") == "" && request.Header.Get("Range") == "" &&
		request.Method != http.MethodHead
}

// unpack decompresses the body of a gzip response.
func unpack(response *http.Response) {
	if !strings.EqualFold(response.Header.Get("Content-Encoding"), "gzip") {
		return
	}
	response.Body = &gunzip{body: response.Body}
	response.Header.Del("Content-Encoding")
	response.Header.Del("Content-Length")
	response.ContentLength = -1
	response.Uncompressed = true
}
