// Each request runs this program in a new WebAssembly instance, so sessions are in a table.
package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"html/template"
	"net/http"
	"strings"
	"unicode/utf8"

	"svc/guest"
	"svc/guest/password"
	"svc/guest/tables"
)

const (
	cookieName  = "__Host-session"
	maxAttempts = 10
	// The hash of a random password. A log-in for an unknown name is verified against it, so that it takes as long.
	decoy = "$argon2id$v=19$m=19456,t=2,p=1$xlWbNrjVJ5F0NSE+Mm4oDA$zPG+CxbkaTOstE5IWAbsOpXX1pVfpsRTqvjtzb35gW4"
)

func main() {
	http.HandleFunc("POST /go/sign-up", sameOrigin(signUp))
	http.HandleFunc("POST /go/log-in", sameOrigin(logIn))
	http.HandleFunc("POST /go/log-out", sameOrigin(logOut))
	http.HandleFunc("GET /go/home", home)
	guest.Serve(nil)
}

func signUp(w http.ResponseWriter, r *http.Request) {
	name, secret, ok := credentials(w, r)
	if !ok {
		return
	}
	hash := must(password.Hash(r.Context(), secret))
	result, err := tables.Exec(r.Context(), "insert into members (name, password) values ($1, $2)", name, hash)
	var refused *tables.Error
	switch {
	case errors.As(err, &refused) && refused.Constraint == "unique":
		answer(w, http.StatusConflict, "title", "Choose another name")
	case errors.As(err, &refused) && refused.Constraint == "check":
		answer(w, http.StatusBadRequest, "title", "A name has 2 to 30 characters")
	default:
		must(result, err)
		guest.Log.Info("member signed up", "member", result.LastID)
		startSession(w, r, result.LastID)
		answer(w, http.StatusCreated, "name", name)
	}
}

func logIn(w http.ResponseWriter, r *http.Request) {
	name, secret, ok := credentials(w, r)
	if !ok {
		return
	}
	results := must(tables.Batch(r.Context(),
		tables.Prepare("delete from attempts where expires < now()"),
		tables.Prepare("insert into attempts (name) values ($1)", name),
		tables.Prepare("select count(*) as count from attempts where name = $1", name),
		tables.Prepare("select id, name, password from members where name = $1", name),
	))
	if results[2].Rows[0]["count"].(int64) > maxAttempts {
		w.Header().Set("Retry-After", "900")
		answer(w, http.StatusTooManyRequests, "title", "Try again in 15 minutes")
		return
	}
	member, hash := tables.Row{}, decoy
	known := len(results[3].Rows) == 1
	if known {
		member = results[3].Rows[0]
		hash = member["password"].(string)
	}
	if valid := must(password.Verify(r.Context(), secret, hash)); !valid || !known {
		answer(w, http.StatusUnauthorized, "title", "Wrong name or password")
		return
	}
	must(tables.Exec(r.Context(), "delete from attempts where name = $1", name))
	startSession(w, r, member["id"].(int64))
	answer(w, http.StatusOK, "name", member["name"].(string))
}

func logOut(w http.ResponseWriter, r *http.Request) {
	must(tables.Exec(r.Context(), "delete from sessions where id = $1", sessionID(r)))
	setCookie(w, "", -1)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func home(w http.ResponseWriter, r *http.Request) {
	members := must(tables.Query(r.Context(), `
		select name, substr(joined, 1, 10) as joined from sessions join members on members.id = sessions.member
		where sessions.id = $1 and expires > now()`, sessionID(r)))
	if len(members) == 0 {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'self'")
	w.Header().Set("Cache-Control", "no-store")
	page.Execute(w, members[0])
}

// credentials reads a name and a password from JSON. It sends an error response if they are not usable.
func credentials(w http.ResponseWriter, r *http.Request) (name, secret string, ok bool) {
	var sent struct{ Name, Password *string }
	if json.NewDecoder(r.Body).Decode(&sent) != nil || sent.Name == nil || sent.Password == nil {
		answer(w, http.StatusBadRequest, "title", "Send a name and a password")
		return "", "", false
	}
	if length := utf8.RuneCountInString(*sent.Password); length < 8 || length > 200 {
		answer(w, http.StatusBadRequest, "title", "A password has 8 to 200 characters")
		return "", "", false
	}
	return strings.TrimSpace(*sent.Name), *sent.Password, true
}

// startSession sends a random token to the browser. The table gets its hash, so that a copy of the table opens no
// session.
func startSession(w http.ResponseWriter, r *http.Request, member int64) {
	bytes := make([]byte, 32)
	rand.Read(bytes)
	token := hex.EncodeToString(bytes)
	must(tables.Batch(r.Context(),
		tables.Prepare("delete from sessions where expires < now()"),
		tables.Prepare("insert into sessions (id, member) values ($1, $2)", hashed(token), member),
	))
	setCookie(w, token, 30*86_400)
}

// setCookie sets a cookie that no script reads, and that no other site or project can set or send with a form.
func setCookie(w http.ResponseWriter, token string, seconds int) {
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: token, Path: "/", MaxAge: seconds,
		Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode})
}

func sessionID(r *http.Request) string {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return ""
	}
	return hashed(cookie.Value)
}

func hashed(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// sameOrigin refuses requests of pages of other origins, which browsers name: they cannot act for a member.
func sameOrigin(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		origin := r.Header.Get("Origin")
		if origin != "" && origin != "https://"+r.Host && origin != "http://"+r.Host {
			answer(w, http.StatusForbidden, "title", "Sent by another site")
			return
		}
		next(w, r)
	}
}

func answer(w http.ResponseWriter, status int, name, value string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]string{name: value})
}

// must returns a value. An error that the visitor cannot correct ends the request with status 500.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

var page = template.Must(template.New("home").Parse(`<!doctype html>
<html lang="en">
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <title>Members</title>
  <link rel="icon" href="/icon.svg" type="image/svg+xml">
  <link rel="stylesheet" href="/style.css">
  <main data-lane="go">
    <p class="lane">A page by Go, for members</p>
    <h1>Hello, {{.name}}</h1>
    <p>You joined on {{.joined}}. Your session is valid in each language:</p>
    <nav><a href="/js/home">JavaScript</a> <a href="/go/home">Go</a> <a href="/rust/home">Rust</a></nav>
    <form method="post" action="/go/log-out"><button>Log out</button></form>
  </main>
</html>
`))
