// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// A record is one line, "<crc32c in hex> <json>\n", in a file of its own.

// errCorrupt means that a record is there and not to be trusted.
var errCorrupt = errors.New("record: bad checksum or form")

const maxRecord = 64 << 20

func seal(v any) ([]byte, error) {
	j, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	b := make([]byte, 0, len(j)+10)
	b = fmt.Appendf(b, "%08x ", crc32.Checksum(j, crc32.MakeTable(crc32.Castagnoli)))
	return append(append(b, j...), '\n'), nil
}

func unseal(b []byte, v any) error {
	b, rest, ok := bytes.Cut(b, []byte("\n"))
	if !ok || len(b) < 10 || b[8] != ' ' || len(bytes.Trim(rest, "\x00 \n")) != 0 {
		return errCorrupt
	}
	sum, err := strconv.ParseUint(string(b[:8]), 16, 32)
	if err != nil || uint32(sum) != crc32.Checksum(b[9:], crc32.MakeTable(crc32.Castagnoli)) {
		return errCorrupt
	}
	if err := json.Unmarshal(b[9:], v); err != nil {
		return errCorrupt
	}
	return nil
}

// readRecord reads a record into v: fs.ErrNotExist when there is none, errCorrupt
// when it cannot be trusted.
func readRecord(path string, v any) error {
	b, err := readFile(path)
	if err != nil {
		return err
	}
	return unseal(b, v)
}

func readFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxRecord))
}

// durability says how a record is written.
type durability struct {
	sync                  bool
	tmp, renamed, durable string // failpoints
}

// writeRecord makes the record appear whole: temporary file, sync, rename, sync of
// the directory.
func writeRecord(dir, name string, v any, d durability) error {
	b, err := seal(v)
	if err != nil {
		return err
	}
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	tmp := filepath.Join(dir, "."+name)
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Truncate(int64(len(b)))
	}
	if err == nil && d.sync {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	failpoint(d.tmp)
	if err := os.Rename(tmp, filepath.Join(dir, name)); err != nil {
		return err
	}
	failpoint(d.renamed)
	if d.sync {
		if err := folder.Sync(); err != nil {
			return err
		}
	}
	failpoint(d.durable)
	return nil
}

// reserve takes the space of a record up front, so that it can be written when the
// disk is full.
func reserve(dir, name string, size int64) error {
	f, err := os.OpenFile(filepath.Join(dir, "."+name), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size); err == nil {
		return nil
	}
	_, err = f.Write(make([]byte, size))
	return err
}

// exists is false only when the file is certainly not there: whoever cannot look must
// not conclude that something did not happen.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !isNotExist(err)
}

func isNotExist(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}
