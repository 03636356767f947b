// A route for each of several well-known modules.
package main

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/gorilla/mux"
	"github.com/labstack/echo/v4"
	echomiddleware "github.com/labstack/echo/v4/middleware"

	"svc/guest"
	"svc/guest/tables/sqldb"
)

type item struct {
	ID   int    `json:"id" uri:"id" param:"id"`
	Name string `json:"name" form:"name" query:"name" binding:"required,min=2"`
}

func main() {
	http.Handle("/chi/", chiRouter())
	http.Handle("/gin/", ginRouter())
	http.Handle("/echo/", echoRouter())
	http.Handle("/mux/", muxRouter())
	http.HandleFunc("/templ", func(w http.ResponseWriter, r *http.Request) {
		page(r.FormValue("name"), []string{"a", "<b>"}).Render(r.Context(), w)
	})
	http.HandleFunc("/jose", joseTokens)
	http.HandleFunc("/sqlc", authors)
	guest.Serve(nil)
}

func chiRouter() http.Handler {
	router := chi.NewRouter()
	router.Use(middleware.RequestID, middleware.Recoverer, middleware.Compress(5))
	router.Route("/chi/items/{id:[0-9]+}", func(router chi.Router) {
		router.Use(middleware.SetHeader("X-Kind", "chi"))
		router.Get("/", func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, chi.URLParam(r, "id"), " ", middleware.GetReqID(r.Context()) != "")
		})
	})
	router.Get("/chi/panic", func(http.ResponseWriter, *http.Request) { panic("recovered by chi") })
	return router
}

func ginRouter() http.Handler {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.Use(gin.Recovery())
	engine.POST("/gin/items/:id", func(c *gin.Context) {
		var sent item
		if err := c.ShouldBind(&sent); err != nil {
			c.JSON(http.StatusBadRequest, gin.H{"error": err.Error()})
			return
		}
		_ = c.ShouldBindUri(&sent)
		c.Header("X-Kind", "gin")
		c.JSON(http.StatusCreated, sent)
	})
	engine.POST("/gin/upload", func(c *gin.Context) {
		file, err := c.FormFile("file")
		if err != nil {
			c.String(http.StatusBadRequest, err.Error())
			return
		}
		c.String(http.StatusOK, "%s %d", file.Filename, file.Size)
	})
	return engine
}

func echoRouter() http.Handler {
	router := echo.New()
	router.Use(echomiddleware.Recover(), echomiddleware.Secure())
	router.GET("/echo/items/:id", func(c echo.Context) error {
		var sent item
		if err := c.Bind(&sent); err != nil {
			return err
		}
		if sent.Name == "" {
			return echo.NewHTTPError(http.StatusBadRequest, "a name is needed")
		}
		return c.JSON(http.StatusOK, sent)
	})
	return router
}

func muxRouter() http.Handler {
	router := mux.NewRouter()
	router.HandleFunc("/mux/items/{id:[0-9]+}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, mux.Vars(r)["id"])
	}).Methods("GET").Queries("name", "{name}")
	return router
}

// authors runs code as sqlc generates it.
func authors(w http.ResponseWriter, r *http.Request) {
	ctx, queries := r.Context(), New(sqldb.Open())
	created, err := queries.CreateAuthor(ctx, CreateAuthorParams{Name: "Ada", Active: true, Photo: []byte{0, 255}})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, duplicate := queries.CreateAuthor(ctx, CreateAuthorParams{Name: "Ada"})
	renamed, err := queries.RenameAuthor(ctx, RenameAuthorParams{Name: "Grace", ID: created.ID})
	found, missing := queries.GetAuthor(ctx, created.ID)
	_, none := queries.GetAuthor(ctx, 99)
	list, listed := queries.ListAuthors(ctx)
	_, begun := sqldb.Open().BeginTx(ctx, nil)
	json.NewEncoder(w).Encode(map[string]any{
		"created": created, "duplicate": fmt.Sprint(duplicate), "renamed": renamed, "found": found, "list": list,
		"none": fmt.Sprint(none), "begin": fmt.Sprint(begun), "errors": fmt.Sprint(err, missing, listed),
	})
}
