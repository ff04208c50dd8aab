// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"encoding/binary"
	"math"
	"time"
)

// The binary formats of the few types the schema uses. Values are written where they
// are sent from and read where they were received, without a step between.

const (
	oidBool        = 16
	oidBytea       = 17
	oidInt8        = 20
	oidText        = 25
	oidFloat8      = 701
	oidBoolArray   = 1000
	oidByteaArray  = 1001
	oidInt8Array   = 1016
	oidTimeArray   = 1185
	oidTimestamptz = 1184
)

// dawn is the server's time zero, 2000-01-01, in microseconds since 1970.
const dawn = 946684800 * 1e6

// args are the values of one statement.
type args struct {
	values [][]byte
	oids   []uint32
}

func (a *args) add(oid uint32, v []byte) *args {
	a.values, a.oids = append(a.values, v), append(a.oids, oid)
	return a
}

func with() *args { return &args{} }

func (a *args) bytes(s string) *args { return a.add(oidBytea, append([]byte{}, s...)) }
func (a *args) text(s string) *args  { return a.add(oidText, append([]byte{}, s...)) }

func (a *args) int(n int64) *args {
	return a.add(oidInt8, binary.BigEndian.AppendUint64(nil, uint64(n)))
}

func (a *args) time(t time.Time) *args {
	return a.add(oidTimestamptz, appendTime(nil, t))
}

func (a *args) float(f float64) *args {
	return a.add(oidFloat8, binary.BigEndian.AppendUint64(nil, math.Float64bits(f)))
}

func (a *args) column(c *column) *args { return a.add(c.oid, c.done()) }

func appendTime(b []byte, t time.Time) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(t.UnixMicro()-dawn))
}

// column is one array of values: what one column of many rows is set to.
type column struct {
	oid, elem uint32
	n         int32
	nulls     bool
	buf       []byte
}

// arrayHeader is what stands before an array's elements.
const arrayHeader = 20

func newColumn(oid, elem uint32) column {
	return column{oid: oid, elem: elem, buf: make([]byte, arrayHeader, 512)}
}

func bytesColumn() column { return newColumn(oidByteaArray, oidBytea) }
func intColumn() column   { return newColumn(oidInt8Array, oidInt8) }
func boolColumn() column  { return newColumn(oidBoolArray, oidBool) }
func timeColumn() column  { return newColumn(oidTimeArray, oidTimestamptz) }

func (c *column) null() {
	c.n, c.nulls = c.n+1, true
	c.buf = append(c.buf, 0xff, 0xff, 0xff, 0xff)
}

func (c *column) length(n int) {
	c.n++
	c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(n))
}

func (c *column) string(s string) {
	c.length(len(s))
	c.buf = append(c.buf, s...)
}

// some adds a text, of which an empty one is NULL.
func (c *column) some(s string) {
	if s == "" {
		c.null()
		return
	}
	c.string(s)
}

// bytes adds bytes, of which nil is NULL.
func (c *column) bytes(b []byte) {
	if b == nil {
		c.null()
		return
	}
	c.length(len(b))
	c.buf = append(c.buf, b...)
}

func (c *column) int(n int64) {
	c.length(8)
	c.buf = binary.BigEndian.AppendUint64(c.buf, uint64(n))
}

func (c *column) bool(v bool) {
	c.length(1)
	if v {
		c.buf = append(c.buf, 1)
		return
	}
	c.buf = append(c.buf, 0)
}

func (c *column) time(t time.Time) {
	c.length(8)
	c.buf = appendTime(c.buf, t)
}

// done returns the array.
func (c *column) done() []byte {
	if c.n == 0 {
		c.buf = c.buf[:12]
		binary.BigEndian.PutUint32(c.buf[8:], c.elem)
		return c.buf
	}
	binary.BigEndian.PutUint32(c.buf[0:], 1)
	if c.nulls {
		binary.BigEndian.PutUint32(c.buf[4:], 1)
	}
	binary.BigEndian.PutUint32(c.buf[8:], c.elem)
	binary.BigEndian.PutUint32(c.buf[12:], uint32(c.n))
	binary.BigEndian.PutUint32(c.buf[16:], 1)
	return c.buf
}

// bytesOf returns an array of texts.
func bytesOf[S ~string](list []S) *column {
	c := bytesColumn()
	for _, s := range list {
		c.string(string(s))
	}
	return &c
}

// row is one row of a result. It is valid until the next one is read.
type row [][]byte

func (r row) null(i int) bool { return r[i] == nil }

func (r row) text(i int) string { return string(r[i]) }

// same is text that shares prev when it is the same.
func (r row) same(i int, prev string) string {
	if string(r[i]) == prev {
		return prev
	}
	return string(r[i])
}

// blob returns a copy; NULL is nil, and empty is not.
func (r row) blob(i int) []byte {
	if r[i] == nil {
		return nil
	}
	return append([]byte{}, r[i]...)
}

func (r row) int(i int) int64 {
	if len(r[i]) != 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(r[i]))
}

func (r row) bool(i int) bool { return len(r[i]) == 1 && r[i][0] != 0 }

func (r row) time(i int) time.Time { return time.UnixMicro(r.int(i) + dawn).UTC() }
