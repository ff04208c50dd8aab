// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/shell"
)

// ident tells a process from every other, also from a later one with the same pid.
type ident struct {
	Pid    int    `json:"pid"`
	Start  uint64 `json:"start_ticks"`
	PidFS  uint64 `json:"pidfs_ino,omitempty"` // 0 before Linux 6.9
	BootID string `json:"boot_id"`
	PidNS  uint64 `json:"pid_ns"`
}

const pidfsMagic = 0x50494446

func bootID() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(bytes.TrimSpace(b))
}

func pidNS() uint64 {
	var st unix.Stat_t
	if unix.Stat("/proc/self/ns/pid", &st) != nil {
		return 0
	}
	return st.Ino
}

// identify describes a live child of the caller, which cannot be recycled meanwhile.
func identify(pid int) ident {
	id := ident{Pid: pid, BootID: bootID(), PidNS: pidNS()}
	if p, ok := readProc(pid); ok {
		id.Start = p.start
	}
	if fd, err := unix.PidfdOpen(pid, 0); err == nil {
		id.PidFS = pidfsInode(fd)
		unix.Close(fd)
	}
	return id
}

func pidfsInode(fd int) uint64 {
	var fs unix.Statfs_t
	var st unix.Stat_t
	if unix.Fstatfs(fd, &fs) != nil || fs.Type != pidfsMagic || unix.Fstat(fd, &st) != nil {
		return 0
	}
	return st.Ino
}

// proc is one line of the process table.
type proc struct {
	pid, ppid, pgrp int
	start           uint64
	state           byte
}

func (p proc) dead() bool { return p.state == 'Z' || p.state == 'X' || p.state == 'x' }

func readProc(pid int) (proc, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return proc{}, false
	}
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return proc{}, false
	}
	f := strings.Fields(string(b[i+1:]))
	if len(f) < 20 {
		return proc{}, false
	}
	p := proc{pid: pid, state: f[0][0]}
	p.ppid, _ = strconv.Atoi(f[1])
	p.pgrp, _ = strconv.Atoi(f[2])
	p.start, _ = strconv.ParseUint(f[19], 10, 64)
	return p, true
}

// cookieOf returns the run a process says it belongs to. A supervisor cannot be
// inspected by others than root, but its argument list can.
func cookieOf(pid int) string {
	dir := "/proc/" + strconv.Itoa(pid)
	if b, err := os.ReadFile(dir + "/environ"); err == nil {
		for kv := range bytes.SplitSeq(b, []byte{0}) {
			if v, ok := bytes.CutPrefix(kv, []byte(shell.Cookie+"=")); ok {
				return string(v)
			}
		}
		return ""
	}
	b, err := os.ReadFile(dir + "/cmdline")
	if err != nil {
		return ""
	}
	if a := strings.Split(string(b), "\x00"); len(a) > 2 && a[1] == argShim {
		return filepath.Base(a[2])
	}
	return ""
}

// tree is the set of processes that belong to one run: the descendants of root, and
// every process with the run's cookie and its descendants. Processes with another
// run's cookie, and their descendants, are never part of it.
type tree struct {
	run  string
	root int // 0: none
	// byCookie looks at every process of the machine; a supervisor need not, since as
	// a sub-reaper it is the ancestor of them all.
	byCookie bool
	// withRoot counts the root itself as part of the run.
	withRoot bool
}

// members returns the live processes of the run.
func (t tree) members() []proc {
	if !t.byCookie {
		if ps, ok := t.walk(t.root, nil, 0); ok {
			return ps
		}
	}
	return t.scan()
}

// walk follows the kernel's lists of children; ok is false where there are none.
func (t tree) walk(pid int, ps []proc, depth int) ([]proc, bool) {
	dir := "/proc/" + strconv.Itoa(pid) + "/task"
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return ps, pid != t.root
	}
	for _, task := range tasks {
		b, err := os.ReadFile(dir + "/" + task.Name() + "/children")
		if err != nil {
			if isNotExist(err) && exists(dir+"/"+task.Name()+"/stat") {
				return ps, false
			}
			continue
		}
		for s := range strings.FieldsSeq(string(b)) {
			c, _ := strconv.Atoi(s)
			p, ok := readProc(c)
			if !ok || t.spared(c) || depth > 1000 {
				continue
			}
			if !p.dead() {
				ps = append(ps, p)
			}
			if ps, ok = t.walk(c, ps, depth+1); !ok {
				return ps, false
			}
		}
	}
	return ps, true
}

func (t tree) spared(pid int) bool {
	c := cookieOf(pid)
	return c != "" && c != t.run
}

// scan builds the tree from the whole process table.
func (t tree) scan() []proc {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	self := os.Getpid()
	table := map[int]proc{}
	children := map[int][]int{}
	var roots []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		p, ok := readProc(pid)
		if !ok {
			continue
		}
		table[pid] = p
		children[p.ppid] = append(children[p.ppid], pid)
		if pid != self && (t.byCookie && cookieOf(pid) == t.run || t.withRoot && pid == t.root) {
			roots = append(roots, pid)
		}
	}
	if t.root != 0 && !t.withRoot {
		roots = append(roots, children[t.root]...)
	}
	var ps []proc
	seen := map[int]bool{self: true}
	for len(roots) > 0 {
		pid := roots[len(roots)-1]
		roots = roots[:len(roots)-1]
		if seen[pid] {
			continue
		}
		seen[pid] = true
		if t.spared(pid) {
			continue
		}
		if p := table[pid]; !p.dead() {
			ps = append(ps, p)
		}
		roots = append(roots, children[pid]...)
	}
	return ps
}

// handle returns a pidfd of p, or -1 when its pid means another process by now: the
// pidfd is opened first, then the identity is read again. full means that there are no
// descriptors left.
func (t tree) handle(p proc) (fd int, full bool) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return -1, errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)
	}
	now, ok := readProc(p.pid)
	moved := now.ppid != p.ppid && t.byCookie && cookieOf(p.pid) != t.run // neither where it was nor marked as ours
	if !ok || now.start != p.start || now.dead() || moved || t.spared(p.pid) {
		unix.Close(fd)
		return -1, false
	}
	return fd, false
}

// signalAll sends sig to every member and returns them. It takes hold of all before it
// signals any: when a parent has ended, its children are found no more.
func (t tree) signalAll(sig unix.Signal) []proc {
	ps := t.members()
	var fds []int
	send := func() {
		for _, fd := range fds {
			_ = unix.PidfdSendSignal(fd, sig, nil, 0)
			unix.Close(fd)
		}
		fds = fds[:0]
	}
	for _, p := range ps {
		fd, full := t.handle(p)
		if full {
			send()
			fd, _ = t.handle(p)
		}
		if fd >= 0 {
			fds = append(fds, fd)
		}
	}
	send()
	return ps
}

// sweepPasses bounds how often a sweep looks again for processes that were forked
// while it was at work.
const sweepPasses = 50

// kill stops the whole tree for good and returns how many processes it met and how
// many it could not end. pause waits a little between two passes.
func (t tree) kill(pause func()) (met, left int) {
	seen := map[proc]bool{}
	empty := 0
	for range sweepPasses {
		ps := t.signalAll(unix.SIGKILL)
		if len(ps) == 0 {
			// In the middle of an exec a process has no environment for a moment.
			if empty++; empty > 1 || !t.byCookie {
				return len(seen), 0
			}
			pause()
			continue
		}
		empty = 0
		for _, p := range ps {
			seen[proc{pid: p.pid, start: p.start}] = true
		}
		left = len(ps)
		pause()
	}
	return len(seen), left
}
