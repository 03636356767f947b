// A route for each thing that a handler of net/http may do, hosted and natively.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"svc/guest"
)

func main() {
	requests()
	responses()
	clients()
	concurrency()
	failures()
	guest.Serve(nil)
}

func requests() {
	http.HandleFunc("GET /items/{id}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "item ", r.PathValue("id"))
	})
	http.HandleFunc("/seen/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]any{
			"method": r.Method, "target": r.RequestURI, "path": r.URL.Path, "name": r.URL.Query().Get("name"),
			"host": r.Host, "length": r.ContentLength, "many": r.Header.Values("X-Many"),
			"hostField": r.Header.Get("Host"), "proto": r.Proto,
		})
	})
	http.HandleFunc("GET /env", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, os.Getenv("GREETING"), len(os.Args))
	})
	http.HandleFunc("POST /form", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.FormValue("a"), r.PostFormValue("b"))
	})
	http.HandleFunc("POST /json", func(w http.ResponseWriter, r *http.Request) {
		var sent struct{ Numbers []int }
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Fprint(w, sent.Numbers)
	})
	http.HandleFunc("POST /upload", func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(10 << 20); err != nil {
			fmt.Fprint(w, err, " ", errors.Is(err, multipart.ErrMessageTooLarge))
			return
		}
		defer r.MultipartForm.RemoveAll()
		for _, header := range r.MultipartForm.File["file"] {
			file, err := header.Open()
			if err != nil {
				fmt.Fprint(w, err)
				return
			}
			digest := sha256.New()
			size, err := io.Copy(digest, file)
			middle := make([]byte, 10)
			_, late := file.(io.ReaderAt).ReadAt(middle, header.Size/2)
			_, over := file.Seek(-3, io.SeekEnd)
			end, _ := io.ReadAll(file)
			fmt.Fprintln(w, header.Filename, header.Size == size, err, late, over, len(end))
			fmt.Fprintf(w, "%x %x\n", digest.Sum(nil), middle)
			file.Close()
		}
		fmt.Fprint(w, r.FormValue("name"))
	})
	http.HandleFunc("POST /limited", func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 10))
		var tooLarge *http.MaxBytesError
		fmt.Fprint(w, errors.As(err, &tooLarge))
	})
	http.HandleFunc("POST /echo", func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		size, _ := strconv.Atoi(r.FormValue("size"))
		if size == 0 {
			io.Copy(w, r.Body)
			return
		}
		io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r.Body}, make([]byte, size))
	})
	http.HandleFunc("POST /digest", func(w http.ResponseWriter, r *http.Request) {
		sent, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%d %x %v", len(sent), sha256.Sum256(sent), err)
	})
}

func responses() {
	http.HandleFunc("/status/{code}", func(w http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.PathValue("code"))
		w.WriteHeader(code)
		w.WriteHeader(500)
		_, err := w.Write([]byte("body"))
		log.Print("wrote: ", err)
	})
	http.HandleFunc("GET /early-hints", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusTeapot)
	})
	http.HandleFunc("GET /trailers", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		fmt.Fprint(w, "body")
		w.(http.Flusher).Flush()
		w.Header().Set("X-Sum", "7")
		w.Header().Set(http.TrailerPrefix+"X-Late", "8")
	})
	http.HandleFunc("GET /fields", func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Set-Cookie"] = []string{"a=1", "b=2", "c=3"}
		w.Header().Set("X-Odd", "a, \"b\"")
		w.Header().Set("Connection", "close")
		fmt.Fprint(w, "<html>")
		w.Header().Set("X-Late", "after the head")
	})
	http.HandleFunc("GET /large", func(w http.ResponseWriter, r *http.Request) {
		w.Write(bytes.Repeat([]byte("0123456789"), 100_001))
	})
	http.HandleFunc("GET /flush", func(w http.ResponseWriter, r *http.Request) {
		for n := range 4 {
			fmt.Fprint(w, "piece ")
			fmt.Fprint(w, n)
			w.(http.Flusher).Flush()
			time.Sleep(100 * time.Millisecond)
		}
	})
	http.HandleFunc("GET /controller", func(w http.ResponseWriter, r *http.Request) {
		controller := http.NewResponseController(w)
		fmt.Fprint(w, "one")
		fmt.Fprint(w, controller.Flush())
	})
	http.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) {
		events := guest.NewEvents(w)
		events.Comment("hello")
		for n := range 4 {
			events.Send(guest.Event{ID: strconv.Itoa(n), Name: "tick", Data: map[string]int{"n": n}})
			time.Sleep(100 * time.Millisecond)
		}
		events.Send(guest.Event{Data: "two\nlines", Retry: time.Second})
		events.Send(guest.Event{Data: []byte("bytes")})
		events.Send(guest.Event{Name: "none"})
		if err := events.Send(guest.Event{Data: make(chan int)}); err != nil {
			events.Send(guest.Event{Data: err.Error()})
		}
	})
	http.HandleFunc("GET /content", func(w http.ResponseWriter, r *http.Request) {
		changed := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		http.ServeContent(w, r, "a.txt", changed, strings.NewReader("0123456789"))
	})
	http.Handle("GET /slow-handler", http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	}), 50*time.Millisecond, "too slow"))
	http.HandleFunc("GET /redirected", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/items/7", http.StatusSeeOther)
	})
	http.HandleFunc("GET /nothing", func(w http.ResponseWriter, r *http.Request) {})
}

// show writes a response, or why there is none.
func show(w io.Writer, response *http.Response, err error) {
	if err != nil {
		fmt.Fprint(w, "error: ", err)
		return
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	fmt.Fprint(w, response.StatusCode, " ", response.Header.Get("X-Kind"), " ", response.ContentLength, " ", string(body), " ", err)
}

func clients() {
	handle := func(pattern string, answer func(w http.ResponseWriter, r *http.Request, url string)) {
		http.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			answer(w, r, r.URL.Query().Get("url"))
		})
	}
	handle("/fetch", func(w http.ResponseWriter, r *http.Request, url string) {
		request, err := http.NewRequestWithContext(r.Context(), r.FormValue("method"), url, nil)
		if err != nil {
			fmt.Fprint(w, err)
			return
		}
		request.Header.Add("X-Many", "a")
		request.Header.Add("X-Many", "b")
		response, err := http.DefaultClient.Do(request)
		show(w, response, err)
	})
	handle("/sized", func(w http.ResponseWriter, r *http.Request, url string) {
		response, err := http.Post(url, "text/plain", strings.NewReader("a body"))
		show(w, response, err)
	})
	handle("/empty", func(w http.ResponseWriter, r *http.Request, url string) {
		response, err := http.Post(url, "text/plain", nil)
		show(w, response, err)
	})
	handle("/chunked", func(w http.ResponseWriter, r *http.Request, url string) {
		response, err := http.Post(url, "text/plain", r.Body)
		show(w, response, err)
	})
	handle("/answered-upload", func(w http.ResponseWriter, r *http.Request, url string) {
		reader, writer := io.Pipe()
		go writer.Write([]byte("one,"))
		response, err := http.Post(url, "text/plain", reader)
		if err != nil {
			fmt.Fprint(w, err)
			return
		}
		first := make([]byte, 4)
		io.ReadFull(response.Body, first)
		writer.Write([]byte("two"))
		writer.Close()
		rest, err := io.ReadAll(response.Body)
		fmt.Fprint(w, response.StatusCode, " ", string(first), string(rest), " ", err)
	})
	handle("/broken-upload", func(w http.ResponseWriter, r *http.Request, url string) {
		response, err := http.Post(url, "text/plain", io.MultiReader(strings.NewReader("half"), broken{}))
		show(w, response, err)
	})
	handle("/closed-upload", func(w http.ResponseWriter, r *http.Request, url string) {
		reader, writer := io.Pipe()
		request, _ := http.NewRequest("POST", url, reader)
		request.Header.Set("User-Agent", "")
		done := make(chan error)
		go func() {
			_, err := writer.Write(make([]byte, 1<<24))
			done <- err
		}()
		_, err := http.DefaultTransport.RoundTrip(request)
		fmt.Fprint(w, err != nil, <-done)
	})
	handle("/several", func(w http.ResponseWriter, r *http.Request, url string) {
		var all sync.WaitGroup
		texts := make([]strings.Builder, 5)
		for n := range texts {
			all.Add(1)
			go func() {
				defer all.Done()
				response, err := http.Get(fmt.Sprint(url, "?", n))
				show(&texts[n], response, err)
			}()
		}
		all.Wait()
		for n := range texts {
			fmt.Fprintln(w, texts[n].String())
		}
	})
	handle("/deadline", func(w http.ResponseWriter, r *http.Request, url string) {
		ctx, cancel := context.WithTimeout(r.Context(), 100*time.Millisecond)
		defer cancel()
		request, _ := http.NewRequestWithContext(ctx, "GET", url, nil)
		_, err := http.DefaultClient.Do(request)
		fmt.Fprint(w, errors.Is(err, context.DeadlineExceeded), ctx.Err())
	})
	handle("/client-timeout", func(w http.ResponseWriter, r *http.Request, url string) {
		client := http.Client{Timeout: 100 * time.Millisecond}
		_, err := client.Get(url)
		var late net.Error
		fmt.Fprint(w, errors.As(err, &late) && late.Timeout(), err != nil)
	})
	handle("/body-timeout", func(w http.ResponseWriter, r *http.Request, url string) {
		client := http.Client{Timeout: time.Second}
		response, err := client.Get(url)
		if err != nil {
			fmt.Fprint(w, err)
			return
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		fmt.Fprint(w, string(body), errors.Is(err, context.DeadlineExceeded))
	})
	handle("/canceled", func(w http.ResponseWriter, r *http.Request, url string) {
		ctx, cancel := context.WithCancel(r.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		request, _ := http.NewRequestWithContext(ctx, "GET", url, nil)
		_, err := http.DefaultClient.Do(request)
		fmt.Fprint(w, errors.Is(err, context.Canceled))
	})
	handle("/not-followed", func(w http.ResponseWriter, r *http.Request, url string) {
		client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		response, err := client.Get(url)
		if err == nil {
			fmt.Fprint(w, response.StatusCode, response.Header.Get("Location"))
		}
	})
	handle("/late-read", func(w http.ResponseWriter, r *http.Request, url string) {
		response, err := http.Get(url)
		time.Sleep(200 * time.Millisecond)
		show(w, response, err)
	})
	handle("/closed-early", func(w http.ResponseWriter, r *http.Request, url string) {
		for range 3 {
			response, err := http.Get(url)
			if err != nil {
				fmt.Fprint(w, err)
				return
			}
			first := make([]byte, 5)
			io.ReadFull(response.Body, first)
			response.Body.Close()
			_, err = response.Body.Read(first)
			fmt.Fprint(w, string(first), err != nil, " ")
		}
	})
	handle("/meanwhile", func(w http.ResponseWriter, r *http.Request, url string) {
		done := make(chan bool, 1)
		go func() {
			for range 100 {
				runtime.Gosched()
			}
			done <- true
		}()
		_, err := http.Get(url)
		select {
		case <-done:
			fmt.Fprint(w, "done meanwhile ", err)
		default:
			fmt.Fprint(w, "not begun ", err)
		}
	})
	handle("/own-transport", func(w http.ResponseWriter, r *http.Request, url string) {
		client := http.Client{Transport: &http.Transport{MaxIdleConns: 10, IdleConnTimeout: time.Second}}
		response, err := client.Get(url)
		show(w, response, err)
		client.CloseIdleConnections()
	})
	handle("/cloned-transport", func(w http.ResponseWriter, r *http.Request, url string) {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost = 10
		response, err := (&http.Client{Transport: transport}).Get(url)
		show(w, response, err)
	})
	handle("/proxied", func(w http.ResponseWriter, r *http.Request, target string) {
		at, _ := url.Parse(target)
		proxy := httputil.ReverseProxy{Rewrite: func(request *httputil.ProxyRequest) {
			request.SetURL(at)
			request.Out.URL.Path, request.Out.URL.RawQuery = at.Path, ""
		}}
		proxy.ServeHTTP(w, r)
	})
	handle("/gzip", func(w http.ResponseWriter, r *http.Request, url string) {
		for _, encoding := range []string{"", "gzip"} {
			for _, transport := range []*http.Transport{{}, {DisableCompression: true}} {
				request, _ := http.NewRequest("GET", url, nil)
				if encoding != "" {
					request.Header.Set("Accept-Encoding", encoding)
				}
				response, err := transport.RoundTrip(request)
				if err != nil {
					fmt.Fprintln(w, err)
					continue
				}
				body, err := io.ReadAll(response.Body)
				response.Body.Close()
				packed := response.Header.Get("Content-Encoding")
				fmt.Fprintf(w, "%q %v %d %v\n", packed, response.Uncompressed, response.ContentLength, err)
				if packed == "" {
					fmt.Fprintln(w, len(body), string(body[:5]))
				}
			}
		}
	})
	handle("/own-server", func(w http.ResponseWriter, r *http.Request, target string) {
		greet := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			fmt.Fprint(w, r.Method, " ", r.URL, " ", len(body), " ", r.TLS != nil)
		})
		plain, encrypted := httptest.NewServer(greet), httptest.NewTLSServer(greet)
		response, err := http.Post(plain.URL+"/a", "text/plain", strings.NewReader(strings.Repeat("x", 200_000)))
		show(w, response, err)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { http.Get(plain.URL) })
		}
		all.Wait()
		response, err = encrypted.Client().Get(encrypted.URL + "/b")
		show(w, response, err)
		plain.Close()
		encrypted.Close()
		_, err = http.Get(plain.URL)
		fmt.Fprint(w, err != nil)
	})
	handle("/own-socket", func(w http.ResponseWriter, r *http.Request, target string) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		go func() {
			accepted, _ := listener.Accept()
			io.Copy(accepted, accepted)
			accepted.Close()
		}()
		connection, err := net.Dial("tcp", listener.Addr().String())
		connection.Write([]byte("tea"))
		connection.(*net.TCPConn).CloseWrite()
		echo, err := io.ReadAll(connection)
		fmt.Fprint(w, string(echo), err)
	})
	handle("/sockets", func(w http.ResponseWriter, r *http.Request, target string) {
		_, err := net.Dial("tcp", "127.0.0.1:1")
		fmt.Fprintln(w, err, errors.Is(err, errors.ErrUnsupported))
		_, err = net.Dial("udp", "127.0.0.1:1")
		fmt.Fprintln(w, err)
		_, err = net.Dial("tcp", "db.example.com:5432")
		fmt.Fprintln(w, err)
		_, err = net.LookupHost("db.example.com")
		fmt.Fprintln(w, err)
		_, err = net.LookupTXT("db.example.com")
		fmt.Fprintln(w, err)
		fmt.Fprintln(w, http.ListenAndServe(":8080", nil))
		_, err = os.ReadFile("/etc/hostname")
		fmt.Fprint(w, err != nil)
	})
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("no more of it") }

func concurrency() {
	http.HandleFunc("GET /workers", func(w http.ResponseWriter, r *http.Request) {
		var (
			jobs  = make(chan int)
			all   sync.WaitGroup
			lock  sync.Mutex
			sum   int
			count atomic.Int64
			once  sync.Once
		)
		for range 20 {
			all.Add(1)
			go func() {
				defer all.Done()
				for job := range jobs {
					time.Sleep(time.Millisecond)
					count.Add(1)
					once.Do(func() { count.Add(1000) })
					lock.Lock()
					sum += job
					lock.Unlock()
				}
			}()
		}
		for job := range 500 {
			jobs <- job
		}
		close(jobs)
		all.Wait()
		fmt.Fprint(w, sum, count.Load())
	})
	http.HandleFunc("GET /timers", func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		fired := make(chan string, 1)
		time.AfterFunc(90*time.Millisecond, func() { fired <- "fired" })
		stopped := time.AfterFunc(10*time.Millisecond, func() { panic("was stopped") })
		stopped.Stop()
		for range 3 {
			<-ticker.C
		}
		fmt.Fprint(w, <-fired, time.Since(began) >= 90*time.Millisecond)
	})
	http.HandleFunc("GET /busy", func(w http.ResponseWriter, r *http.Request) {
		done := make(chan uint64)
		go func() {
			var sum uint64
			for n := range uint64(50_000_000) {
				sum += n * n
			}
			done <- sum
		}()
		fmt.Fprint(w, <-done)
	})
	http.HandleFunc("GET /garbage", func(w http.ResponseWriter, r *http.Request) {
		kept := map[string][]byte{}
		most := 50
		if text := r.FormValue("live"); text != "" {
			most, _ = strconv.Atoi(text)
		}
		for n := range 3000 {
			kept[strconv.Itoa(n%most)] = make([]byte, 50_000)
		}
		fmt.Fprint(w, len(kept))
	})
}

func failures() {
	http.HandleFunc("GET /log", func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("printed")
		fmt.Fprintln(os.Stderr, "on stderr")
		log.Print("logged")
		slog.Info("structured", "n", 1)
		guest.Log.Warn("recorded", "n", 7, "name", `Jürgen "J"`, slog.Group("at", "level", 2, "time", 3))
		fmt.Print(strings.Repeat("x", 6000), "\nno end")
	})
	http.HandleFunc("GET /panic", func(w http.ResponseWriter, r *http.Request) {
		var none map[string]int
		none["x"] = 1 // the panic
	})
	http.HandleFunc("GET /panic-elsewhere", func(w http.ResponseWriter, r *http.Request) {
		go func() {
			panic(errors.New("in a goroutine")) // the goroutine's
		}()
		select {}
	})
	http.HandleFunc("GET /late-panic", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "begun")
		w.(http.Flusher).Flush()
		panic("much too late")
	})
	http.HandleFunc("GET /recovered", func(w http.ResponseWriter, r *http.Request) {
		defer func() { fmt.Fprint(w, "recovered: ", recover()) }()
		panic("no harm")
	})
	http.HandleFunc("GET /aborted", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("late") != "" {
			fmt.Fprint(w, "begun")
			w.(http.Flusher).Flush()
		}
		panic(http.ErrAbortHandler)
	})
	http.HandleFunc("GET /zone", func(w http.ResponseWriter, r *http.Request) {
		summer := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC).Local()
		_, err := time.LoadLocation("Asia/Tokyo")
		fmt.Fprint(w, summer.Format("15:04 MST"), " ", time.Local, " ", err)
	})
	http.HandleFunc("GET /deadlock", func(w http.ResponseWriter, r *http.Request) {
		<-make(chan int)
	})
	http.HandleFunc("GET /exit/{status}", func(w http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(r.PathValue("status"))
		log.Print("about to exit")
		os.Exit(status)
	})
	http.HandleFunc("GET /memory", func(w http.ResponseWriter, r *http.Request) {
		var kept [][]byte
		for {
			kept = append(kept, bytes.Repeat([]byte("x"), 1<<20))
		}
	})
	http.HandleFunc("GET /recursion", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, deeper(1))
	})
	http.HandleFunc("GET /spin", func(w http.ResponseWriter, r *http.Request) {
		for {
		}
	})
	http.HandleFunc("GET /bad-field", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X Bad", "a field's name has no space")
		fmt.Fprint(w, "ok")
	})
	http.HandleFunc("GET /bad-value", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Bad", "a\r\nX-Forged: b")
		fmt.Fprint(w, "ok")
	})
	http.HandleFunc("GET /bad-status", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(12345)
	})
	http.HandleFunc("GET /forever", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			fmt.Fprintln(w, "still here")
			w.(http.Flusher).Flush()
			time.Sleep(10 * time.Millisecond)
		}
		fmt.Println("left: ", r.Context().Err())
	})
	http.HandleFunc("GET /until-left", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "waiting")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		_, err := fmt.Fprintln(w, "too late")
		fmt.Println("left:", r.Context().Err(), err, w.(interface{ FlushError() error }).FlushError())
	})
	http.HandleFunc("GET /until-left/before", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
		defer cancel()
		<-ctx.Done()
		fmt.Println("left:", ctx.Err())
	})
	http.HandleFunc("GET /too-much", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "5")
		_, err := fmt.Fprint(w, "more than five")
		if err == nil {
			err = http.NewResponseController(w).Flush()
		}
		_, again := w.Write([]byte("x"))
		fmt.Println("told:", err != nil, again != nil, r.Context().Err())
	})
	http.HandleFunc("GET /too-little", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "50")
		fmt.Fprint(w, "less than fifty")
	})
}

func deeper(n int) int { return deeper(n+1) + 1 }
