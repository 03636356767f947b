// A route for each thing that svc/guest/lite offers, hosted and natively.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"svc/guest/lite"
)

func main() { lite.Serve(answer) }

func answer(w *lite.Response, r *lite.Request) {
	name, url, _ := strings.Cut(r.Path, "/to/")
	switch name {
	case "/seen":
		var many []string
		for _, header := range r.Headers {
			if strings.EqualFold(header.Name, "X-Many") {
				many = append(many, header.Value)
			}
		}
		fmt.Fprintf(w, "%s %s %s %s %q", r.Method, r.Path, r.Query, r.Header("HOST"), many)
	case "/env":
		fmt.Fprint(w, os.Getenv("GREETING"))
	case "/made":
		w.Status(201)
		w.Header("X-Many", "1")
		w.Header("X-Many", "2")
		w.Header("Content-Type", "text/plain")
		io.WriteString(w, "made")
	case "/until-left":
		fmt.Fprint(w, "waiting")
		w.Flush()
		<-r.Context.Done()
		fmt.Println("left:", r.Context.Err())
	case "/nothing":
	case "/empty":
		w.Status(204)
		w.Write([]byte("not sent"))
	case "/echo":
		size, _ := strconv.Atoi(r.Query)
		io.CopyBuffer(struct{ io.Writer }{w}, r.Body, make([]byte, size))
	case "/flush":
		for n := range 4 {
			fmt.Fprint(w, "piece ", n)
			w.Flush()
			time.Sleep(100 * time.Millisecond)
		}
	case "/events":
		events := lite.NewEvents(w)
		events.Comment("hello")
		for n := range 4 {
			events.Send(lite.Event{ID: strconv.Itoa(n), Name: "tick", Data: "a\nb"})
			time.Sleep(100 * time.Millisecond)
		}
	case "/fetch":
		show(w, r.Context, lite.Outgoing{Method: r.Header("X-Method"), URL: url})
	case "/post":
		headers := []lite.Header{{Name: "X-Many", Value: "a"}, {Name: "X-Many", Value: "b"}}
		show(w, r.Context, lite.Outgoing{Method: "POST", URL: url, Headers: headers, Body: r.Body})
	case "/several":
		var all sync.WaitGroup
		answers := make([]strings.Builder, 5)
		for n := range answers {
			all.Add(1)
			go func() {
				defer all.Done()
				show(&answers[n], r.Context, lite.Outgoing{URL: fmt.Sprint(url, "?", n)})
			}()
		}
		all.Wait()
		for n := range answers {
			fmt.Fprintln(w, answers[n].String())
		}
	case "/deadline":
		ctx, cancel := context.WithTimeout(r.Context, 100*time.Millisecond)
		defer cancel()
		_, err := lite.Fetch(ctx, lite.Outgoing{URL: url})
		fmt.Fprint(w, errors.Is(err, context.DeadlineExceeded))
	case "/bad-url":
		for _, bad := range []string{"ftp://x/", "no url", "http://", ""} {
			_, err := lite.Fetch(r.Context, lite.Outgoing{URL: bad})
			fmt.Fprintln(w, err != nil)
		}
	case "/bad-field":
		w.Header("X Bad", "1")
	case "/bad-status":
		w.Status(12345)
	case "/too-much":
		w.Header("Content-Length", "5")
		_, err := w.Write([]byte("more than five"))
		fmt.Println("told:", err != nil, r.Context.Err())
	case "/late-panic":
		fmt.Fprint(w, "begun")
		w.Flush()
		panic("much too late")
	case "/panic":
		panic("no luck")
	default:
		w.Status(404)
	}
}

func show(w io.Writer, ctx context.Context, outgoing lite.Outgoing) {
	incoming, err := lite.Fetch(ctx, outgoing)
	if err != nil {
		fmt.Fprint(w, "error: ", err)
		return
	}
	defer incoming.Body.Close()
	body, err := io.ReadAll(incoming.Body)
	fmt.Fprint(w, incoming.Status, " ", incoming.Header("X-KIND"), " ", string(body), " ", err)
}
