// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"bufio"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// span is a range of this process's addresses.
type span struct{ from, to uintptr }

// programText lists where the program and its libraries are mapped as they are in
// their files. What the loader has changed, such as the addresses of a library's
// functions, looks read-only too, but is nowhere else. It must be read before the
// process hides its /proc.
func programText() []span {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return nil
	}
	defer f.Close()
	var spans []span
	var s span
	for sc := bufio.NewScanner(f); sc.Scan(); {
		// from-to perms offset device inode path, and then lines of "Name: value"
		w := strings.Fields(sc.Text())
		switch {
		case len(w) == 3 && w[0] == "Anonymous:":
			if w[1] == "0" && s.to > 0 {
				spans = append(spans, s)
			}
			s = span{}
		case len(w) >= 6 && w[5][0] == '/' && (w[1] == "r-xp" || w[1] == "r--p"):
			a, b, _ := strings.Cut(w[0], "-")
			from, err1 := strconv.ParseUint(a, 16, 64)
			to, err2 := strconv.ParseUint(b, 16, 64)
			if err1 == nil && err2 == nil {
				s = span{uintptr(from), uintptr(to)}
			}
		}
	}
	return spans
}

// shrink gives back what only the start needed. A supervisor waits most of its life,
// and the program it is part of is large: its pages come back one by one as they
// are used, not sixteen around each.
func shrink(text []span) {
	debug.FreeOSMemory()
	for _, s := range text {
		// Advice only: an error costs memory and nothing else.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, s.from, s.to-s.from, unix.MADV_RANDOM)
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, s.from, s.to-s.from, unix.MADV_DONTNEED)
	}
}
