// SPDX-License-Identifier: Apache-2.0

// Package contents keeps documents that are too large to pass through memory: in chunks, each compressed by itself, once for
// all objects that have the same.
//
//	body ─► Upload: chunk, chunk, … (staged: nobody sees them) ─► Attach, in the transaction of the object ─► documents
//	documents ─► Reader: one chunk at a time                      Drop: the last reference frees the chunks
//
// What it decides:
//
//   - A staged content has no sum. What is staged and never attached is swept after an hour.
//   - A content is known by the SHA-256 of its bytes. Who uploads one that is there already has uploaded it in vain: nothing
//     tells the difference from outside.
//   - Contents are counted in the transactions of the objects that have them, and freed with the last one.
//   - Numbers of contents are never given twice, so a reader that is slow reads its own content or none.
package contents

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

const (
	// Chunk is how many bytes of a content are kept together.
	Chunk = 1 << 20
	// stagedFor is how long an upload may take.
	stagedFor = time.Hour
	// sweepAtOnce is how many contents one transaction of Sweep drops.
	sweepAtOnce = 20
	sequence    = "contents"
	// giveBackAfter is how many chunks are written until the database forgets their pages: nobody reads them soon, and with what is
	// noted of packages beside them, a document fills the memory that SQLite may have.
	giveBackAfter = 4
)

// ErrGone is returned for a content that has been swept or freed.
var ErrGone = errors.New("the content is not there any more")

// codec is what chunks are made and read with. Its parts may be used concurrently.
type codec struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

var theCodec = sync.OnceValues(func() (*codec, error) {
	// One chunk is compressed at a time: an encoder has some MiB of its own, and a chunk takes milliseconds.
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(Chunk))
	if err != nil {
		return nil, err
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(2*Chunk), zstd.WithDecoderLowmem(true))
	return &codec{encoder: encoder, decoder: decoder}, err
})

// Upload is a content on its way into the database.
type Upload struct {
	store *mvcc.Store
	codec *codec
	id    int64
	seq   int
	sum   hash.Hash
	bytes int64
	rest  []byte // what does not fill a chunk yet
	data  []byte // the chunk before, compressed, whose memory the next one takes
}

// Stage begins an upload.
func Stage(ctx context.Context, store *mvcc.Store, now time.Time) (*Upload, error) {
	tools, err := theCodec()
	if err != nil {
		return nil, err
	}
	u := &Upload{store: store, codec: tools, sum: sha256.New(), rest: make([]byte, 0, Chunk)}
	err = store.Maintain(ctx, "begin an upload", func(tx *sqldb.Tx) error {
		if u.id, err = mvcc.NextNumber(ctx, tx, sequence); err != nil {
			return err
		}
		return insertStaged(ctx, tx, u.id, now)
	})
	return u, err
}

func insertStaged(ctx context.Context, tx *sqldb.Tx, id int64, now time.Time) error {
	_, err := tx.Exec(ctx, `INSERT INTO contents (id, sha, bytes, refs, at) VALUES (?, NULL, 0, 0, ?)`, id, now.UnixMilli())
	return err
}

// ID is the number under which the content is staged.
func (u *Upload) ID() int64 { return u.id }

// Sum is the SHA-256 of what was written so far, in hexadecimal digits.
func (u *Upload) Sum() string { return hex.EncodeToString(u.sum.Sum(nil)) }

// Bytes is how much was written so far.
func (u *Upload) Bytes() int64 { return u.bytes }

// Add takes more of the content.
func (u *Upload) Add(ctx context.Context, data []byte) error {
	u.sum.Write(data)
	u.bytes += int64(len(data))
	for len(data) > 0 {
		n := min(len(data), Chunk-len(u.rest))
		u.rest, data = append(u.rest, data[:n]...), data[n:]
		if len(u.rest) == Chunk {
			if err := u.flush(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// Finish stages what is left.
func (u *Upload) Finish(ctx context.Context) error {
	if len(u.rest) == 0 {
		return nil
	}
	return u.flush(ctx)
}

func (u *Upload) flush(ctx context.Context) error {
	u.data = u.codec.encoder.EncodeAll(u.rest, u.data[:0])
	err := u.store.Maintain(ctx, "stage a chunk", func(tx *sqldb.Tx) error { return insertChunk(ctx, tx, u.id, u.seq, u.data) })
	if u.seq++; err == nil && u.seq%giveBackAfter == 0 {
		err = u.store.GiveBackMemory(ctx)
	}
	u.rest = u.rest[:0]
	return err
}

func insertChunk(ctx context.Context, tx *sqldb.Tx, content int64, seq int, data []byte) error {
	_, err := tx.Exec(ctx, `INSERT INTO content_chunks (content, seq, data) VALUES (?, ?, ?)`, content, seq, data)
	return err
}

// Discard drops what was staged.
func (u *Upload) Discard(ctx context.Context) error {
	return u.store.Maintain(ctx, "drop an upload", func(tx *sqldb.Tx) error { return free(ctx, tx, u.id) })
}

// Attach makes a staged content a document of an object, in the transaction of the object, instead of the one that the object
// had in that format. It returns the number of the content, which is another one where the same bytes were there already.
func Attach(ctx context.Context, tx *sqldb.Tx, object int64, format string, u *Upload, at time.Time) (content int64, err error) {
	content, err = find(ctx, tx, u.Sum())
	switch {
	case errors.Is(err, sql.ErrNoRows):
		content = u.id
		found, err := tx.Exec(ctx, `UPDATE contents SET sha = ?, bytes = ? WHERE id = ? AND sha IS NULL`, u.Sum(), u.bytes, u.id)
		if err == nil && found == 0 {
			err = ErrGone
		}
		if err != nil {
			return 0, fmt.Errorf("name the content: %w", err)
		}
	case err != nil:
		return 0, fmt.Errorf("look for the content: %w", err)
	default:
		if err := free(ctx, tx, u.id); err != nil {
			return 0, err
		}
	}
	return content, Refer(ctx, tx, object, format, content, at)
}

func find(ctx context.Context, tx *sqldb.Tx, sum string) (content int64, err error) {
	err = tx.QueryRow(ctx, `SELECT id FROM contents WHERE sha = ?`, sum).Scan(&content)
	return content, err
}

// Put keeps a document that is in memory, in the transaction of its object. fresh tells that nobody had the same.
func Put(ctx context.Context, tx *sqldb.Tx, object int64, format string, data []byte, at time.Time) (content int64, fresh bool, err error) {
	sum := sha256.Sum256(data)
	content, err = find(ctx, tx, hex.EncodeToString(sum[:]))
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, false, fmt.Errorf("look for the content: %w", err)
	}
	if err != nil {
		fresh = true
		if content, err = insertWhole(ctx, tx, data, hex.EncodeToString(sum[:]), at); err != nil {
			return 0, false, fmt.Errorf("keep the content: %w", err)
		}
	}
	return content, fresh, Refer(ctx, tx, object, format, content, at)
}

func insertWhole(ctx context.Context, tx *sqldb.Tx, data []byte, sum string, at time.Time) (int64, error) {
	tools, err := theCodec()
	if err != nil {
		return 0, err
	}
	id, err := mvcc.NextNumber(ctx, tx, sequence)
	if err != nil {
		return 0, err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO contents (id, sha, bytes, refs, at) VALUES (?, ?, ?, 0, ?)`, id, sum, len(data), at.UnixMilli()); err != nil {
		return 0, err
	}
	for seq := 0; len(data) > 0; seq++ {
		n := min(len(data), Chunk)
		if err := insertChunk(ctx, tx, id, seq, tools.encoder.EncodeAll(data[:n], nil)); err != nil {
			return 0, err
		}
		data = data[n:]
	}
	return id, nil
}

// Refer makes a content that is there the document of an object, instead of the one it had in that format.
func Refer(ctx context.Context, tx *sqldb.Tx, object int64, format string, content int64, at time.Time) error {
	var before int64
	err := tx.QueryRow(ctx, `SELECT content FROM documents WHERE object = ? AND format = ?`, object, format).Scan(&before)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("read the document before: %w", err)
	}
	if err == nil && before == content {
		return nil
	}
	if err == nil {
		_, err = tx.Exec(ctx, `UPDATE documents SET content = ? WHERE object = ? AND format = ?`, content, object, format)
	} else {
		_, err = tx.Exec(ctx, `INSERT INTO documents (object, format, content) VALUES (?, ?, ?)`, object, format, content)
	}
	if err != nil {
		return fmt.Errorf("note the document: %w", err)
	}
	found, err := tx.Exec(ctx, `UPDATE contents SET refs = refs + 1, at = ? WHERE id = ?`, at.UnixMilli(), content)
	if err == nil && found == 0 {
		err = ErrGone
	}
	if err != nil {
		return fmt.Errorf("count the content: %w", err)
	}
	if before == 0 {
		return nil
	}
	return release(ctx, tx, before)
}

// Drop takes its documents from an object that is deleted, in the transaction of the deletion.
func Drop(ctx context.Context, tx *sqldb.Tx, object int64) error {
	contents, err := sqldb.Column[int64](ctx, tx, `SELECT content FROM documents WHERE object = ?`, object)
	if err != nil || len(contents) == 0 {
		return err
	}
	if _, err := tx.Exec(ctx, `DELETE FROM documents WHERE object = ?`, object); err != nil {
		return fmt.Errorf("drop the documents: %w", err)
	}
	for _, content := range contents {
		if err := release(ctx, tx, content); err != nil {
			return err
		}
	}
	return nil
}

// release lowers the count of a content, and frees it if it was the last one.
func release(ctx context.Context, tx *sqldb.Tx, content int64) error {
	if _, err := tx.Exec(ctx, `UPDATE contents SET refs = refs - 1 WHERE id = ?`, content); err != nil {
		return fmt.Errorf("count the content: %w", err)
	}
	var refs int64
	if err := tx.QueryRow(ctx, `SELECT refs FROM contents WHERE id = ?`, content).Scan(&refs); err != nil {
		return fmt.Errorf("count the content: %w", err)
	}
	if refs > 0 {
		return nil
	}
	return free(ctx, tx, content)
}

func free(ctx context.Context, tx *sqldb.Tx, content int64) error {
	for _, statement := range []string{
		`DELETE FROM content_chunks WHERE content = ?`, `DELETE FROM sbom_packages WHERE content = ?`, `DELETE FROM contents WHERE id = ?`,
	} {
		if _, err := tx.Exec(ctx, statement, content); err != nil {
			return fmt.Errorf("free the content: %w", err)
		}
	}
	return nil
}

// Sweep drops contents that were staged and never attached. It returns whether there are more.
func Sweep(ctx context.Context, tx *sqldb.Tx, now time.Time) (more bool, err error) {
	before := now.Add(-stagedFor).UnixMilli()
	stale, err := sqldb.Column[int64](ctx, tx, `SELECT id FROM contents WHERE refs = 0 AND at < ? ORDER BY at LIMIT ?`, before, sweepAtOnce)
	if err != nil {
		return false, err
	}
	for _, content := range stale {
		if err := free(ctx, tx, content); err != nil {
			return false, err
		}
	}
	return len(stale) == sweepAtOnce, nil
}

// Info is what is known of a document.
type Info struct {
	Content int64
	Sum     string
	Bytes   int64
}

// Of finds the document of an object in a format: by the key of the object. It returns nil if there is none.
func Of(ctx context.Context, store *mvcc.Store, key, format string) (*Info, error) {
	info := &Info{}
	err := store.Query(ctx, func(tx *sqldb.Tx) error {
		return tx.QueryRow(ctx, `SELECT c.id, c.sha, c.bytes FROM objects o JOIN documents d ON d.object = o.id JOIN contents c ON c.id = d.content
			WHERE o."key" = ? AND d.format = ?`, key, format).Scan(&info.Content, &info.Sum, &info.Bytes)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil // there is none
	}
	return info, err
}

// Reader reads a content, one chunk at a time.
type Reader struct {
	ctx     context.Context //nolint:containedctx // of the request that reads
	query   func(fn func(*sqldb.Tx) error) error
	codec   *codec
	content int64
	seq     int
	rest    []byte
	raw     []byte
	ended   bool
	packed  bool
}

var _ io.Reader = &Reader{}

// Open reads a content.
func Open(ctx context.Context, store *mvcc.Store, content int64) (*Reader, error) {
	tools, err := theCodec()
	query := func(fn func(*sqldb.Tx) error) error { return store.Query(ctx, fn) }
	return &Reader{ctx: ctx, query: query, codec: tools, content: content}, err
}

// OpenIn reads the document of an object within a transaction. It returns nil if there is none.
func OpenIn(ctx context.Context, tx *sqldb.Tx, object int64, format string) (*Reader, error) {
	found, err := sqldb.Column[int64](ctx, tx, `SELECT content FROM documents WHERE object = ? AND format = ?`, object, format)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	tools, err := theCodec()
	query := func(fn func(*sqldb.Tx) error) error { return fn(tx) }
	return &Reader{ctx: ctx, query: query, codec: tools, content: found[0]}, err
}

// OpenPacked reads a content as it is stored: as frames of zstd.
func OpenPacked(ctx context.Context, store *mvcc.Store, content int64) (*Reader, error) {
	r, err := Open(ctx, store, content)
	r.packed = true
	return r, err
}

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.ended {
			return 0, io.EOF
		}
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *Reader) next() error {
	var data []byte
	err := r.query(func(tx *sqldb.Tx) error {
		return tx.QueryRow(r.ctx, `SELECT data FROM content_chunks WHERE content = ? AND seq = ?`, r.content, r.seq).Scan(&data)
	})
	if errors.Is(err, sql.ErrNoRows) {
		r.ended = true
		return r.whole()
	}
	if err != nil {
		return err
	}
	r.seq++
	if r.packed {
		r.rest = data
		return nil
	}
	if r.raw, err = r.codec.decoder.DecodeAll(data, r.raw[:0]); err != nil {
		return fmt.Errorf("expand chunk %d of content %d: %w", r.seq-1, r.content, err)
	}
	r.rest = r.raw
	return nil
}

// whole tells whether all chunks were read: a content that was freed in the meantime has no more of them.
func (r *Reader) whole() error {
	var n int
	err := r.query(func(tx *sqldb.Tx) error {
		return tx.QueryRow(r.ctx, `SELECT COUNT(*) FROM contents WHERE id = ? AND sha IS NOT NULL`, r.content).Scan(&n)
	})
	if err == nil && n == 0 {
		err = ErrGone
	}
	return err
}
