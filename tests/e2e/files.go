package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"

	"svc/guest"
	"svc/guest/files"
)

func main() { guest.Serve(http.HandlerFunc(handle)) }

func handle(w http.ResponseWriter, r *http.Request) {
	key, _ := url.PathUnescape(r.URL.EscapedPath()[1:])
	query := r.URL.Query()
	err := func() error {
		switch {
		case r.Method == "PUT":
			options := files.Options{Type: "video/mp4", Metadata: map[string]string{"by": "ä😀"}, New: query.Has("new")}
			info, err := files.Put(r.Context(), key, r.Body, options)
			if err == nil {
				w.WriteHeader(201)
				fmt.Fprint(w, info.Size, info.Metadata["by"])
			}
			return err
		case r.Method == "DELETE":
			return files.Remove(r.Context(), key)
		case query.Has("list"):
			found, prefixes, _, err := files.List(r.Context(), "", "/", "")
			fmt.Fprint(w, len(found), prefixes)
			return err
		case query.Has("sign"):
			signed, err := files.Sign(r.Context(), key, files.Permission{Method: "PUT", MaxBytes: 10})
			fmt.Fprint(w, signed)
			return err
		case query.Has("get"):
			file, err := files.OpenRange(r.Context(), key, 1, 3)
			if err == nil {
				_, err = io.Copy(w, file)
			}
			return err
		}
		w.Header().Set(files.Deliver(key))
		return nil
	}()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		http.Error(w, err.Error(), 404)
	case errors.Is(err, fs.ErrExist):
		http.Error(w, err.Error(), 409)
	case errors.Is(err, fs.ErrInvalid):
		http.Error(w, err.Error(), 400)
	case err != nil:
		http.Error(w, err.Error(), 500)
	}
}
