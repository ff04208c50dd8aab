// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/local/internal/failpoint"
)

// terminalType is what a command is told of its terminal when nobody knows better.
const terminalType = "xterm-256color"

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment returns the environment of the command.
func environment(id shell.RunID, r shell.Request) []string {
	base := r.Environ
	if base == nil {
		base = shell.CleanEnviron(os.Environ(), r.TTY != nil)
	}
	set := maps.Clone(r.Env)
	if set == nil {
		set = map[string]string{}
	}
	set[shell.Cookie] = string(id)
	var env []string
	hasPath, hasTerm := false, false
	for _, kv := range base {
		name, _, _ := strings.Cut(kv, "=")
		if _, replaced := set[name]; replaced || name == failpoint.Env || r.TTY != nil && kv == "TERM=" {
			continue
		}
		hasPath, hasTerm = hasPath || name == "PATH", hasTerm || name == "TERM"
		env = append(env, kv)
	}
	if _, ok := set["PATH"]; !hasPath && !ok && r.Environ == nil {
		set["PATH"] = defaultPath
	}
	if _, ok := set["TERM"]; !hasTerm && !ok && r.TTY != nil {
		set["TERM"] = terminalType
	}
	for _, k := range slices.Sorted(maps.Keys(set)) {
		env = append(env, k+"="+set[k])
	}
	return env
}

// payload is what stage2 needs to become the command. It travels in a memory file,
// whole from the start, so that no secret touches a disk or an argument list.
type payload struct {
	dir    string
	script string // path of the shell text, or empty
	argv   []string
	env    []string
}

func (p payload) encode() []byte {
	var b []byte
	str := func(s string) {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	list := func(ss []string) {
		b = binary.AppendUvarint(b, uint64(len(ss)))
		for _, s := range ss {
			str(s)
		}
	}
	str(p.dir)
	str(p.script)
	list(p.argv)
	list(p.env)
	return b
}

func decodePayload(b []byte) (p payload, err error) {
	bad := errors.New("payload: truncated")
	num := func() uint64 {
		n, k := binary.Uvarint(b)
		if k <= 0 || n > uint64(len(b)) {
			err, b = bad, nil
			return 0
		}
		b = b[k:]
		return n
	}
	str := func() string {
		n := num()
		if n > uint64(len(b)) {
			err, b = bad, nil
			return ""
		}
		s := string(b[:n])
		b = b[n:]
		return s
	}
	list := func() (ss []string) {
		for n := num(); n > 0 && err == nil; n-- {
			ss = append(ss, str())
		}
		return ss
	}
	p.dir, p.script = str(), str()
	p.argv, p.env = list(), list()
	return p, err
}

// memfile returns an anonymous file with the given content, read from the start.
func memfile(name string, content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memory file: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err = f.Write(content); err == nil {
		_, err = f.Seek(0, 0)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("memory file: %w", err)
	}
	return f, nil
}
