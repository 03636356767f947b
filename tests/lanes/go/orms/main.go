// A program that uses the tables through packages that build their own SQL.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	entsql "entgo.io/ent/dialect/sql"
	"github.com/Masterminds/squirrel"
	"github.com/jmoiron/sqlx"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"svc/guest"
	"svc/guest/tables/sqldb"
)

type Author struct {
	bun.BaseModel `bun:"table:authors" gorm:"-"`

	ID     int64     `bun:"id,pk,autoincrement" db:"id"`
	Name   string    `db:"name"`
	Bio    *string   `db:"bio"`
	Active bool      `db:"active"`
	Born   time.Time `db:"born"`
	Books  []Book    `bun:"rel:has-many,join:id=author_id"`
}

type Book struct {
	bun.BaseModel `bun:"table:books" gorm:"-"`

	ID       int64 `bun:"id,pk,autoincrement"`
	AuthorID int64
	Title    string
}

var born = time.Date(1815, 12, 10, 0, 0, 0, 0, time.UTC)

func main() {
	handle("/gorm", withGorm)
	handle("/sqlx", withSqlx)
	handle("/bun", withBun)
	handle("/builders", withBuilders)
	guest.Serve(nil)
}

func handle(path string, use func(ctx context.Context, found map[string]any) error) {
	http.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		found := map[string]any{}
		if err := use(r.Context(), found); err != nil {
			found["error"] = err.Error()
		}
		json.NewEncoder(w).Encode(found)
	})
}

func withGorm(ctx context.Context, found map[string]any) error {
	db, err := gorm.Open(sqlite.Dialector{Conn: sqldb.Open()}, &gorm.Config{
		SkipDefaultTransaction: true,
		TranslateError:         true,
	})
	if err != nil {
		return err
	}
	db = db.WithContext(ctx)
	author := Author{Name: "Ada", Active: true, Born: born, Books: []Book{{Title: "Notes"}, {Title: "Letters"}}}
	if err := db.Create(&author).Error; err != nil {
		return err
	}
	found["id"] = author.ID
	if err := db.Model(&author).Updates(map[string]any{"Name": "Grace"}).Error; err != nil {
		return err
	}
	upsert := Author{ID: author.ID, Name: "Grace", Born: born}
	err = db.Clauses(clause.OnConflict{Columns: []clause.Column{{Name: "id"}}, DoUpdates: clause.AssignmentColumns([]string{"active"})}).Create(&upsert).Error
	if err != nil {
		return err
	}
	var list []Author
	if err := db.Preload("Books").Where("name like ?", "G%").Order("id desc").Limit(5).Find(&list).Error; err != nil {
		return err
	}
	for _, each := range list {
		found["name"], found["active"], found["born"], found["books"] = each.Name, each.Active, each.Born, len(each.Books)
	}
	var count int64
	if err := db.Model(&Book{}).Where("author_id = ?", author.ID).Count(&count).Error; err != nil {
		return err
	}
	found["count"] = count
	found["none"] = errors.Is(db.First(&Author{}, 99).Error, gorm.ErrRecordNotFound)
	duplicate := db.Create(&Author{Name: "Grace", Born: born}).Error
	found["duplicate"] = duplicate.Error()
	found["transaction"] = db.Transaction(func(*gorm.DB) error { return nil }).Error()
	found["migrate"] = text(db.AutoMigrate(&Author{}))
	if err := db.Where("author_id = ?", author.ID).Delete(&Book{}).Error; err != nil {
		return err
	}
	return db.Delete(&author).Error
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func withSqlx(ctx context.Context, found map[string]any) error {
	db := sqlx.NewDb(sqldb.Open(), "sqlite3")
	author := Author{Name: "Ada", Active: true, Born: born}
	added, err := db.NamedExecContext(ctx, "insert into authors (name, active, born) values (:name, :active, :born)", author)
	if err != nil {
		return err
	}
	id, _ := added.LastInsertId()
	found["id"] = id
	var list []Author
	query, args, err := sqlx.In("select * from authors where id in (?)", []int64{id, 99})
	if err != nil {
		return err
	}
	if err := db.SelectContext(ctx, &list, query, args...); err != nil {
		return err
	}
	for _, each := range list {
		found["name"], found["active"], found["born"] = each.Name, each.Active, each.Born
	}
	found["none"] = errors.Is(db.GetContext(ctx, &Author{}, "select * from authors where id = 99"), sql.ErrNoRows)
	_, err = db.ExecContext(ctx, "delete from authors")
	return err
}

func withBun(ctx context.Context, found map[string]any) error {
	db := bun.NewDB(sqldb.Open(), sqlitedialect.New())
	author := &Author{Name: "Ada", Active: true, Born: born}
	if _, err := db.NewInsert().Model(author).Exec(ctx); err != nil {
		return err
	}
	found["id"] = author.ID
	books := []Book{{AuthorID: author.ID, Title: "Notes"}, {AuthorID: author.ID, Title: "Letters"}}
	if _, err := db.NewInsert().Model(&books).Exec(ctx); err != nil {
		return err
	}
	if _, err := db.NewUpdate().Model(author).Set("name = ?", "Grace").WherePK().Exec(ctx); err != nil {
		return err
	}
	var list []Author
	if err := db.NewSelect().Model(&list).Relation("Books").Where("name like ?", "G%").Scan(ctx); err != nil {
		return err
	}
	for _, each := range list {
		found["name"], found["active"], found["born"], found["books"] = each.Name, each.Active, each.Born, len(each.Books)
	}
	if _, err := db.NewDelete().Model((*Book)(nil)).Where("author_id = ?", author.ID).Exec(ctx); err != nil {
		return err
	}
	_, err := db.NewDelete().Model(author).WherePK().Exec(ctx)
	return err
}

func withBuilders(ctx context.Context, found map[string]any) error {
	db := sqldb.Open()
	_, err := squirrel.Insert("authors").Columns("name", "active", "born").Values("Ada", true, born).RunWith(db).ExecContext(ctx)
	if err != nil {
		return err
	}
	var name string
	query, args := entsql.Dialect("sqlite3").Select("name").From(entsql.Table("authors")).Where(entsql.EQ("active", true)).Query()
	rows := &entsql.Rows{}
	if err := entsql.OpenDB("sqlite3", db).Query(ctx, query, args, rows); err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(&name); err != nil {
			return err
		}
	}
	found["name"] = name
	_, err = squirrel.Delete("authors").Where(squirrel.Eq{"name": name}).RunWith(db).ExecContext(ctx)
	return err
}
