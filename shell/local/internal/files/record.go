// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package files keeps the records of a run on disk.
package files

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

	"github.com/outlive-dev/outlive/shell/local/internal/failpoint"
)

// A record is one line, "<crc32c in hex> <json>\n", in a file of its own.

// ErrCorrupt means that a record is there and not to be trusted.
var ErrCorrupt = errors.New("record: bad checksum or form")

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
		return ErrCorrupt
	}
	sum, err := strconv.ParseUint(string(b[:8]), 16, 32)
	if err != nil || uint32(sum) != crc32.Checksum(b[9:], crc32.MakeTable(crc32.Castagnoli)) {
		return ErrCorrupt
	}
	if err := json.Unmarshal(b[9:], v); err != nil {
		return ErrCorrupt
	}
	return nil
}

// Read reads a record into v: fs.ErrNotExist when there is none, ErrCorrupt
// when it cannot be trusted.
func Read(path string, v any) error {
	b, err := Slurp(path)
	if err != nil {
		return err
	}
	return unseal(b, v)
}

// Slurp reads a file that is no link.
func Slurp(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxRecord))
}

// Durability says how a record is written.
type Durability struct {
	Sync                  bool   // it survives a power failure
	Tmp, Renamed, Durable string // failpoints
}

// Write makes the record appear whole: temporary file, sync, rename, sync of
// the directory.
func Write(dir, name string, v any, d Durability) error {
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
	if err == nil && d.Sync {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	failpoint.Hit(d.Tmp)
	if err := os.Rename(tmp, filepath.Join(dir, name)); err != nil {
		return err
	}
	failpoint.Hit(d.Renamed)
	if d.Sync {
		if err := folder.Sync(); err != nil {
			return err
		}
	}
	failpoint.Hit(d.Durable)
	return nil
}

// Reserve takes the space of a record up front, so that it can be written when the
// disk is full.
func Reserve(dir, name string, size int64) error {
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

// Exists is false only when the file is certainly not there: whoever cannot look must
// not conclude that something did not happen.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return !NotThere(err)
}

// NotThere reports whether an error says that there is no such file.
func NotThere(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}

// Cut bounds a text that goes into a record of limited size.
func Cut(s string) string {
	const limit = 500
	if len(s) > limit {
		return s[:limit] + "..."
	}
	return s
}

// Use returns the bytes that the files of a run take on the disk.
func Use(dir string) (n int64) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, e := range entries {
		var st unix.Stat_t
		if unix.Lstat(filepath.Join(dir, e.Name()), &st) == nil {
			n += st.Blocks * 512
		}
	}
	return n
}
