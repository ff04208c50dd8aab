// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"fmt"
	"path/filepath"
	"strings"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	_ "modernc.org/sqlite" // prepares the library on platforms that need it
	lib "modernc.org/sqlite/lib"
)

// conn is one connection, used through the engine's own interface: the generic
// one binds every value through two more layers, which costs a batch of small
// rows several times its own time.
//
// Concurrency: one goroutine at a time.
type conn struct {
	tls   *libc.TLS
	db    uintptr
	out   uintptr          // 16 bytes for results by pointer
	arena arena            // holds what is bound, until the statement is reset
	stmts map[string]*stmt // prepared, by text

	codecs *codecs
}

// stmt is a prepared statement of its connection. Only one at a time may be
// between its first bind and its reset.
type stmt struct {
	c *conn
	p uintptr
	n int32 // the last parameter bound
}

// ptr turns an address of the engine's memory, which Go's collector does not know,
// into a pointer.
func ptr(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

// fileURI escapes path for SQLite. New files get the permissions of like.
func fileURI(path, like string, params ...string) string {
	// Not url.QueryEscape: to the engine a plus is a plus.
	esc := strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23", "&", "%26", "=", "%3d").Replace
	if like != "" {
		params = append(params, "modeof="+esc(like))
	}
	uri := "file:" + esc(filepath.ToSlash(path))
	if len(params) == 0 {
		return uri
	}
	return uri + "?" + strings.Join(params, "&")
}

func openConn(uri string, flags int32) (*conn, error) {
	c := &conn{tls: libc.NewTLS(), stmts: make(map[string]*stmt)}
	c.out = libc.Xmalloc(c.tls, 16)
	name, err := libc.CString(uri)
	if err != nil {
		return nil, err
	}
	defer libc.Xfree(c.tls, name)
	*(*uintptr)(ptr(c.out)) = 0
	rc := lib.Xsqlite3_open_v2(c.tls, name, c.out, flags|lib.SQLITE_OPEN_URI|lib.SQLITE_OPEN_NOMUTEX, 0)
	c.db = *(*uintptr)(ptr(c.out))
	if rc != lib.SQLITE_OK {
		err := c.fail(rc)
		c.close()
		return nil, err
	}
	lib.Xsqlite3_extended_result_codes(c.tls, c.db, 1)
	return c, nil
}

// close finalizes the statements too.
func (c *conn) close() {
	if c == nil || c.tls == nil {
		return
	}
	for _, s := range c.stmts {
		lib.Xsqlite3_finalize(c.tls, s.p)
	}
	c.stmts = nil
	if c.db != 0 {
		lib.Xsqlite3_close_v2(c.tls, c.db)
	}
	c.arena.free(c.tls)
	libc.Xfree(c.tls, c.out)
	c.tls.Close()
	c.tls, c.db = nil, 0
}

// fail returns the error of result code rc.
func (c *conn) fail(rc int32) error {
	text := libc.GoString(lib.Xsqlite3_errstr(c.tls, rc))
	errno := int32(0)
	if c.db != 0 {
		if msg := libc.GoString(lib.Xsqlite3_errmsg(c.tls, c.db)); msg != text && msg != "not an error" {
			text += ": " + msg
		}
		errno = lib.Xsqlite3_system_errno(c.tls, c.db)
	}
	return &engineError{code: int(rc), errno: int(errno), text: text}
}

// exec runs one or more statements without parameters.
func (c *conn) exec(sql string) error {
	text, err := libc.CString(sql)
	if err != nil {
		return err
	}
	defer libc.Xfree(c.tls, text)
	if rc := lib.Xsqlite3_exec(c.tls, c.db, text, 0, 0, 0); rc != lib.SQLITE_OK {
		return c.fail(rc)
	}
	return nil
}

// stmt returns the prepared statement of that text.
func (c *conn) stmt(sql string) (*stmt, error) {
	if s, ok := c.stmts[sql]; ok {
		return s, nil
	}
	text, err := libc.CString(sql)
	if err != nil {
		return nil, err
	}
	defer libc.Xfree(c.tls, text)
	rc := lib.Xsqlite3_prepare_v3(c.tls, c.db, text, -1, lib.SQLITE_PREPARE_PERSISTENT, c.out, 0)
	if rc != lib.SQLITE_OK {
		return nil, c.fail(rc)
	}
	s := &stmt{c: c, p: *(*uintptr)(ptr(c.out))}
	c.stmts[sql] = s
	return s, nil
}

// run executes a statement with the given values and calls row for every row.
func (c *conn) run(sql string, row func(*stmt) error, values ...any) error {
	s, err := c.stmt(sql)
	if err != nil {
		return err
	}
	for _, v := range values {
		switch v := v.(type) {
		case int64:
			s.int(v)
		case int:
			s.int(int64(v))
		case string:
			s.text(v)
		case []byte:
			s.blob(v)
		default:
			panic(fmt.Sprintf("sqlite: value of type %T", v))
		}
	}
	return s.each(row)
}

// int64 returns the first column of the first row, or 0.
func (c *conn) int64(sql string, values ...any) (n int64, err error) {
	err = c.run(sql, func(s *stmt) error {
		n = s.colInt(0)
		return nil
	}, values...)
	return n, err
}

// Binders fill the parameters in order.

func (s *stmt) int(v int64) {
	s.n++
	lib.Xsqlite3_bind_int64(s.c.tls, s.p, s.n, v)
}

func (s *stmt) bool(v bool) {
	if v {
		s.int(1)
	} else {
		s.int(0)
	}
}

func (s *stmt) null() {
	s.n++
	lib.Xsqlite3_bind_null(s.c.tls, s.p, s.n)
}

func (s *stmt) text(v string) {
	s.n++
	p := s.c.arena.put(s.c.tls, v)
	lib.Xsqlite3_bind_text(s.c.tls, s.p, s.n, p, int32(len(v)), 0)
}

// textOrNull binds NULL for "".
func (s *stmt) textOrNull(v string) {
	if v == "" {
		s.null()
		return
	}
	s.text(v)
}

// blob binds NULL for nil.
func (s *stmt) blob(v []byte) {
	if v == nil {
		s.null()
		return
	}
	s.n++
	p := s.c.arena.put(s.c.tls, unsafe.String(unsafe.SliceData(v), len(v)))
	lib.Xsqlite3_bind_blob(s.c.tls, s.p, s.n, p, int32(len(v)), 0)
}

// each steps to the end and resets. A nil row takes no rows.
func (s *stmt) each(row func(*stmt) error) error {
	defer s.reset()
	for {
		switch rc := lib.Xsqlite3_step(s.c.tls, s.p); rc {
		case lib.SQLITE_DONE:
			return nil
		case lib.SQLITE_ROW:
			if row == nil {
				continue
			}
			if err := row(s); err != nil {
				return err
			}
		default:
			return s.c.fail(rc)
		}
	}
}

// do executes a statement that returns no rows.
func (s *stmt) do() error {
	rc := lib.Xsqlite3_step(s.c.tls, s.p)
	if rc == lib.SQLITE_DONE || rc == lib.SQLITE_ROW {
		s.reset()
		return nil
	}
	err := s.c.fail(rc)
	s.reset()
	return err
}

// reset leaves parameters bound to memory of the arena that the next use binds
// anew before it steps.
func (s *stmt) reset() {
	lib.Xsqlite3_reset(s.c.tls, s.p)
	s.n = 0
	s.c.arena.reset(s.c.tls)
}

func (s *stmt) colInt(i int32) int64 { return lib.Xsqlite3_column_int64(s.c.tls, s.p, i) }

func (s *stmt) colNull(i int32) bool {
	return lib.Xsqlite3_column_type(s.c.tls, s.p, i) == lib.SQLITE_NULL
}

// colView returns the bytes of a column, valid until the next step.
func (s *stmt) colView(i int32) []byte {
	p := lib.Xsqlite3_column_blob(s.c.tls, s.p, i)
	n := lib.Xsqlite3_column_bytes(s.c.tls, s.p, i)
	if p == 0 || n == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(ptr(p)), n)
}

func (s *stmt) colText(i int32) string { return string(s.colView(i)) }

// colSame is colText, and returns prev itself when it is the same.
func (s *stmt) colSame(i int32, prev string) string {
	if b := s.colView(i); string(b) != prev {
		return string(b)
	}
	return prev
}

// colBlob returns nil for NULL.
func (s *stmt) colBlob(i int32) []byte {
	b := s.colView(i)
	if len(b) == 0 && s.colNull(i) {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}

// arena holds copies of bound values in the engine's memory, so that binding
// costs no allocation.
type arena struct {
	chunk uintptr
	size  int
	used  int
	more  []uintptr // chunks of their own, freed by reset
}

const arenaSize = 256 << 10

func (a *arena) put(tls *libc.TLS, v string) uintptr {
	if a.chunk == 0 {
		a.chunk, a.size = libc.Xmalloc(tls, arenaSize), arenaSize
	}
	p := a.chunk + uintptr(a.used)
	if a.used+len(v)+1 > a.size {
		p = libc.Xmalloc(tls, types.Size_t(len(v)+1))
		a.more = append(a.more, p)
	} else {
		a.used += len(v) + 1
	}
	copy(unsafe.Slice((*byte)(ptr(p)), len(v)), v)
	return p
}

func (a *arena) reset(tls *libc.TLS) {
	a.used = 0
	for _, p := range a.more {
		libc.Xfree(tls, p)
	}
	a.more = a.more[:0]
}

func (a *arena) free(tls *libc.TLS) {
	a.reset(tls)
	if a.chunk != 0 {
		libc.Xfree(tls, a.chunk)
		a.chunk = 0
	}
}

func (c *conn) lastRow() int64 { return lib.Xsqlite3_last_insert_rowid(c.tls, c.db) }

// control passes a number to one of the engine's file controls.
func (c *conn) control(op int32, v int32) error {
	*(*int32)(ptr(c.out)) = v
	name, err := libc.CString("main")
	if err != nil {
		return err
	}
	defer libc.Xfree(c.tls, name)
	if rc := lib.Xsqlite3_file_control(c.tls, c.db, name, op, c.out); rc != lib.SQLITE_OK {
		return c.fail(rc)
	}
	return nil
}

// written returns how many pages this connection has written to the log.
func (c *conn) written() int64 {
	if rc := lib.Xsqlite3_db_status(c.tls, c.db, lib.SQLITE_DBSTATUS_CACHE_WRITE, c.out, c.out+8, 0); rc != lib.SQLITE_OK {
		return 0
	}
	return int64(*(*int32)(ptr(c.out)))
}

// checkpoint copies what it can of the log into the file. It returns the frames
// of the log and how many of them are in the file.
func (c *conn) checkpoint() (frames, done int64, err error) {
	rc := lib.Xsqlite3_wal_checkpoint_v2(c.tls, c.db, 0, lib.SQLITE_CHECKPOINT_PASSIVE, c.out, c.out+8)
	if rc != lib.SQLITE_OK {
		return 0, 0, c.fail(rc)
	}
	return int64(*(*int32)(ptr(c.out))), int64(*(*int32)(ptr(c.out + 8))), nil
}
