// As js/index.js.
package main

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"svc/guest"
	"svc/guest/tables"
)

func main() { guest.Serve(http.HandlerFunc(answer)) }

func answer(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	lines := strings.Split(string(body), "\n")
	head, ctx := strings.Split(lines[0], "\t"), r.Context()
	if head[1] != "" {
		ctx = tables.WithIdempotencyKey(ctx, head[1])
	}
	if head[2] != "" {
		ctx = tables.WithStaleOK(ctx, true)
	}
	statements := []tables.Statement{}
	for _, line := range lines[1:] {
		parts := strings.Split(line, "\t")
		params := []any{}
		for _, param := range parts[1:] {
			params = append(params, param)
		}
		statements = append(statements, tables.Prepare(tables.Text(parts[0]), params...))
	}
	first, found := statements[0], ""
	switch head[0] {
	case "query":
		var rows []tables.Row
		if rows, err = tables.Query(ctx, first.SQL, first.Params...); err == nil {
			found = rows[0]["found"].(string)
		}
	case "exec":
		_, err = tables.Exec(ctx, first.SQL, first.Params...)
	default:
		_, err = tables.Batch(ctx, statements...)
	}
	var refusal *tables.Error
	if errors.As(err, &refusal) {
		w.WriteHeader(refusal.Status)
		found = refusal.Code
	} else if err != nil {
		panic(err)
	}
	io.WriteString(w, found)
}
