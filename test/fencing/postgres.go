package fencing

import (
	"context"
	"database/sql"
)

// Table is where SaveInPostgres writes. Beside each row stands the token that it
// was written with.
const Table = `
CREATE TABLE IF NOT EXISTS orders (
	id    text PRIMARY KEY,
	body  text NOT NULL,
	token bigint NOT NULL
)`

// SaveInPostgres writes a row, unless a holder with a greater token has written it
// before. The comparison and the write are one statement, so nothing can come in
// between.
func SaveInPostgres(ctx context.Context, db *sql.DB, token int64, id, body string) error {
	result, err := db.ExecContext(ctx, `
INSERT INTO orders (id, body, token) VALUES ($1, $2, $3)
ON CONFLICT (id) DO UPDATE SET body = excluded.body, token = excluded.token
WHERE orders.token <= excluded.token`, id, body, token)
	if err != nil {
		return err
	}
	written, err := result.RowsAffected()
	if err == nil && written == 0 {
		err = ErrStale
	}
	return err
}
