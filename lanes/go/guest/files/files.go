// Package files stores large objects of the program's project by key. Bodies are streams of any length, so a program
// needs little memory for them:
//
//	info, err := files.Put(ctx, "videos/cat.mp4", r.Body, files.Options{Type: "video/mp4"})
//	file, err := files.Open(ctx, "videos/cat.mp4")
//
// To send a file to the client, respond with the header field of Deliver and no body: the host sends the file, or the
// range that the client asks for.
//
// It works beside svc/guest and svc/guest/lite alike.
package files

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"svc/guest/internal/door"
	"svc/guest/lite"
)

// Info describes a file. Fields are the header fields that are sent with it, Metadata texts of the program.
type Info struct {
	Key      string
	Size     int64
	ETag     string
	Modified time.Time
	Fields   map[string]string
	Metadata map[string]string
}

// Options are those of Put. Type is the content type (default: application/octet-stream). With New, Put fails with
// fs.ErrExist if the key has a file.
type Options struct {
	Type     string
	Metadata map[string]string
	New      bool
}

// Error is a request that the Door refused. It is fs.ErrNotExist, fs.ErrExist or fs.ErrInvalid for errors.Is.
type Error = door.Error

// File is an open file; read it like any io.Reader, and close it.
type File struct {
	io.ReadCloser
	// Size is the size of the whole file.
	Size int64
	Type string
	ETag string
}

// Put stores what it reads, as a whole: if body fails, the file before stays.
func Put(ctx context.Context, key string, body io.Reader, options Options) (Info, error) {
	headers := []lite.Header{}
	if options.Type != "" {
		headers = append(headers, lite.Header{Name: "content-type", Value: options.Type})
	}
	if options.Metadata != nil {
		text, err := json.Marshal(options.Metadata)
		if err != nil {
			return Info{}, fmt.Errorf("files: %w", err)
		}
		headers = append(headers, lite.Header{Name: "x-svc-meta", Value: ascii(string(text))})
	}
	if options.New {
		headers = append(headers, lite.Header{Name: "if-none-match", Value: "*"})
	}
	var info Info
	return info, ask(ctx, "PUT", "files/"+url.PathEscape(key), headers, body, &info)
}

// Open returns a file, whose bytes are read as they arrive.
func Open(ctx context.Context, key string) (*File, error) { return OpenRange(ctx, key, 0, -1) }

// OpenRange returns a part of a file: length bytes from offset on, or all from there if length is below 0.
func OpenRange(ctx context.Context, key string, offset, length int64) (*File, error) {
	headers := []lite.Header{}
	if offset > 0 || length >= 0 {
		last := ""
		if length >= 0 {
			last = strconv.FormatInt(offset+length-1, 10)
		}
		headers = append(headers, lite.Header{Name: "range", Value: fmt.Sprintf("bytes=%d-%s", offset, last)})
	}
	request := lite.Outgoing{Method: "GET", URL: "/v1/files/" + url.PathEscape(key), Headers: headers}
	response, err := door.Open(ctx, "files", "SVC_FILES_ENDPOINT", request)
	if err != nil {
		return nil, err
	}
	text := response.Header("content-length")
	if _, whole, found := strings.Cut(response.Header("content-range"), "/"); found {
		text = whole
	}
	size, _ := strconv.ParseInt(text, 10, 64)
	return &File{response.Body, size, response.Header("content-type"), strings.Trim(response.Header("etag"), `"`)}, nil
}

// Remove removes a file, if it exists.
func Remove(ctx context.Context, key string) error {
	return ask(ctx, "DELETE", "files/"+url.PathEscape(key), nil, nil, nil)
}

// List returns up to 1,000 files whose keys begin with prefix, by the bytes of their keys, and the cursor of the next
// ones, which is empty at the end. With a delimiter, prefixes has the keys that contain it, up to it.
func List(ctx context.Context, prefix, delimiter, cursor string) (files []Info, prefixes []string, next string, err error) {
	query := url.Values{"prefix": {prefix}, "delimiter": {delimiter}, "cursor": {cursor}}
	var page struct {
		Files    []Info
		Prefixes []string
		Cursor   string
	}
	err = ask(ctx, "GET", "files?"+query.Encode(), nil, nil, &page)
	return page.Files, page.Prefixes, page.Cursor, err
}

// Permission is what a signed URL permits: Method is GET (default) or PUT, of at most MaxBytes and of Type, unless
// they are zero. With Once, a PUT fails if the key has a file.
type Permission struct {
	Method   string        `json:"method,omitempty"`
	Expires  time.Duration `json:"-"`
	MaxBytes int64         `json:"max_bytes,omitempty"`
	Type     string        `json:"type,omitempty"`
	Once     bool          `json:"once,omitempty"`
}

// Sign returns the path of a signed URL on the hosts of the project. It is valid for 10 minutes unless Expires is set.
func Sign(ctx context.Context, key string, permission Permission) (string, error) {
	if permission.Expires == 0 {
		permission.Expires = 10 * time.Minute
	}
	document := struct {
		Key     string `json:"key"`
		Seconds int64  `json:"expires_s"`
		Permission
	}{key, int64(permission.Expires.Seconds()), permission}
	var signed struct{ URL string }
	err := door.Post(ctx, "files", "SVC_FILES_ENDPOINT", "/v1/sign", document, &signed)
	return signed.URL, err
}

// Deliver returns the header field of a response without a body that the host completes with a file.
func Deliver(key string) (name, value string) { return "x-svc-file", url.PathEscape(key) }

func ascii(text string) string {
	var escaped strings.Builder
	for _, unit := range utf16.Encode([]rune(text)) {
		if unit < 0x7f {
			escaped.WriteByte(byte(unit))
		} else {
			fmt.Fprintf(&escaped, `\u%04x`, unit)
		}
	}
	return escaped.String()
}

func ask(ctx context.Context, method, path string, headers []lite.Header, body io.Reader, answer any) error {
	request := lite.Outgoing{Method: method, URL: "/v1/" + path, Headers: headers, Body: body}
	return door.Ask(ctx, "files", "SVC_FILES_ENDPOINT", request, answer)
}
