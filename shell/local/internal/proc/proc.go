// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package proc tells processes apart and finds, signals and ends those of a run.
package proc

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/local/internal/cgroup"
	"github.com/outlive-dev/outlive/shell/local/internal/files"
)

// Ident tells a process from every other, also from a later one with the same pid.
type Ident struct {
	Pid    int    `json:"pid"`
	Start  uint64 `json:"start_ticks"`
	PidFS  uint64 `json:"pidfs_ino,omitempty"` // 0 before Linux 6.9
	BootID string `json:"boot_id"`
	PidNS  uint64 `json:"pid_ns"`
}

const pidfsMagic = 0x50494446

// ShimArg is the first argument of a supervisor; its run's directory is the second.
const ShimArg = "__shim"

// BootID names this boot of the machine.
func BootID() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(bytes.TrimSpace(b))
}

// PidNS names the pid namespace of this process.
func PidNS() uint64 {
	var st unix.Stat_t
	if unix.Stat("/proc/self/ns/pid", &st) != nil {
		return 0
	}
	return st.Ino
}

// Identify describes a live child of the caller, which cannot be recycled meanwhile.
func Identify(pid int) Ident {
	id := Ident{Pid: pid, BootID: BootID(), PidNS: PidNS()}
	if p, ok := Read(pid); ok {
		id.Start = p.Start
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

// Proc is one line of the process table.
type Proc struct {
	Pid, Ppid, Pgrp int
	Start           uint64
	State           byte
}

// Dead reports whether only the status of the process is left.
func (p Proc) Dead() bool { return p.State == 'Z' || p.State == 'X' || p.State == 'x' }

// Read reads a process's line; ok is false when there is no such process.
func Read(pid int) (p Proc, ok bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Proc{}, false
	}
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return Proc{}, false
	}
	f := strings.Fields(string(b[i+1:]))
	if len(f) < 20 {
		return Proc{}, false
	}
	p = Proc{Pid: pid, State: f[0][0]}
	p.Ppid, _ = strconv.Atoi(f[1])
	p.Pgrp, _ = strconv.Atoi(f[2])
	p.Start, _ = strconv.ParseUint(f[19], 10, 64)
	return p, true
}

// CookieOf returns the run a process says it belongs to. A supervisor cannot be
// inspected by others than root, but its argument list can.
func CookieOf(pid int) string {
	dir := "/proc/" + strconv.Itoa(pid)
	if b, err := os.ReadFile(dir + "/environ"); err == nil {
		for kv := range bytes.SplitSeq(b, []byte{0}) {
			if v, ok := bytes.CutPrefix(kv, []byte(shell.Cookie+"=")); ok {
				return string(v)
			}
		}
		return ""
	}
	return supervised(pid)
}

// supervised returns the run that a process supervises, or nothing.
func supervised(pid int) string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return ""
	}
	if a := strings.Split(string(b), "\x00"); len(a) > 2 && a[1] == ShimArg {
		return filepath.Base(a[2])
	}
	return ""
}

// Supervised reports whether a live process of this machine supervises the run. It
// looks at all of them.
func Supervised(run string) bool {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || supervised(pid) != run {
			continue
		}
		if p, ok := Read(pid); ok && !p.Dead() {
			return true
		}
	}
	return false
}

// Tree is the set of processes that belong to one run: the descendants of root, those in
// its own group, and every process with the run's cookie and its descendants. Processes with another
// run's cookie, and their descendants, are never part of it.
type Tree struct {
	Run  string
	Root int // 0: none
	// ByCookie looks at every process of the machine; a supervisor need not, since as
	// a sub-reaper it is the ancestor of them all.
	ByCookie bool
	// WithRoot counts the root itself as part of the run.
	WithRoot bool
	// Cgroup is the directory of the run's own group, or "".
	Cgroup string
}

// Members returns the live processes of the run.
func (t Tree) Members() []Proc {
	ps, ok := []Proc(nil), false
	if !t.ByCookie {
		ps, ok = t.walk(t.Root, nil, 0)
	}
	if !ok {
		ps = t.scan()
	}
	return t.withGroup(ps)
}

// withGroup adds the processes of the run's group that are not among ps.
func (t Tree) withGroup(ps []Proc) []Proc {
	if t.Cgroup == "" {
		return ps
	}
	for _, pid := range cgroup.Procs(t.Cgroup) {
		if slices.ContainsFunc(ps, func(p Proc) bool { return p.Pid == pid }) || pid == os.Getpid() || t.spared(pid) {
			continue
		}
		if p, ok := Read(pid); ok && !p.Dead() {
			ps = append(ps, p)
		}
	}
	return ps
}

// walk follows the kernel's lists of children; ok is false where there are none.
func (t Tree) walk(pid int, ps []Proc, depth int) ([]Proc, bool) {
	dir := "/proc/" + strconv.Itoa(pid) + "/task"
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return ps, pid != t.Root
	}
	for _, task := range tasks {
		b, err := os.ReadFile(dir + "/" + task.Name() + "/children")
		if err != nil {
			if files.NotThere(err) && files.Exists(dir+"/"+task.Name()+"/stat") {
				return ps, false
			}
			continue
		}
		for s := range strings.FieldsSeq(string(b)) {
			c, _ := strconv.Atoi(s)
			p, ok := Read(c)
			if !ok || t.spared(c) || depth > 1000 {
				continue
			}
			if !p.Dead() {
				ps = append(ps, p)
			}
			if ps, ok = t.walk(c, ps, depth+1); !ok {
				return ps, false
			}
		}
	}
	return ps, true
}

func (t Tree) spared(pid int) bool {
	c := CookieOf(pid)
	return c != "" && c != t.Run
}

// scan builds the tree from the whole process table.
func (t Tree) scan() []Proc {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	self := os.Getpid()
	table := map[int]Proc{}
	children := map[int][]int{}
	var roots []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		p, ok := Read(pid)
		if !ok {
			continue
		}
		table[pid] = p
		children[p.Ppid] = append(children[p.Ppid], pid)
		if pid != self && (t.ByCookie && CookieOf(pid) == t.Run || t.WithRoot && pid == t.Root) {
			roots = append(roots, pid)
		}
	}
	if t.Root != 0 && !t.WithRoot {
		roots = append(roots, children[t.Root]...)
	}
	var ps []Proc
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
		if p := table[pid]; !p.Dead() {
			ps = append(ps, p)
		}
		roots = append(roots, children[pid]...)
	}
	return ps
}

// Handle returns a pidfd of p, or -1 when its pid means another process by now: the
// pidfd is opened first, then the identity is read again. full means that there are no
// descriptors left.
func (t Tree) Handle(p Proc) (fd int, full bool) {
	fd, err := unix.PidfdOpen(p.Pid, 0)
	if err != nil {
		return -1, errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)
	}
	now, ok := Read(p.Pid)
	moved := now.Ppid != p.Ppid && t.ByCookie && CookieOf(p.Pid) != t.Run // neither where it was nor marked as ours
	if !ok || now.Start != p.Start || now.Dead() || moved || t.spared(p.Pid) {
		unix.Close(fd)
		return -1, false
	}
	return fd, false
}

// killGroup ends the processes of the run's group at once, those that are just being
// forked too, and notes them. Where there are others, it leaves that to signals.
func (t Tree) killGroup(seen map[Proc]bool) {
	if t.Cgroup == "" {
		return
	}
	pids := cgroup.Procs(t.Cgroup)
	if len(pids) == 0 || slices.ContainsFunc(pids, func(pid int) bool { return pid == os.Getpid() || t.spared(pid) }) {
		return
	}
	for _, pid := range pids {
		if p, ok := Read(pid); ok && !p.Dead() {
			seen[Proc{Pid: p.Pid, Start: p.Start}] = true
		}
	}
	_ = cgroup.Kill(t.Cgroup) // signals do it where the kernel does not
}

// SignalAll sends sig to every member and returns them. It takes hold of all before it
// signals any: when a parent has ended, its children are found no more.
func (t Tree) SignalAll(sig unix.Signal) []Proc {
	ps := t.Members()
	var fds []int
	send := func() {
		for _, fd := range fds {
			_ = unix.PidfdSendSignal(fd, sig, nil, 0)
			unix.Close(fd)
		}
		fds = fds[:0]
	}
	for _, p := range ps {
		fd, full := t.Handle(p)
		if full {
			send()
			fd, _ = t.Handle(p)
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

// Kill stops the whole tree for good and returns how many processes it met and how
// many it could not end. pause waits a little between two passes.
func (t Tree) Kill(pause func()) (met, left int) {
	seen := map[Proc]bool{}
	empty := 0
	for range sweepPasses {
		t.killGroup(seen)
		ps := t.SignalAll(unix.SIGKILL)
		if len(ps) == 0 {
			// In the middle of an exec a process has no environment for a moment.
			if empty++; empty > 1 || !t.ByCookie {
				return len(seen), 0
			}
			pause()
			continue
		}
		empty = 0
		for _, p := range ps {
			seen[Proc{Pid: p.Pid, Start: p.Start}] = true
		}
		left = len(ps)
		pause()
	}
	return len(seen), left
}
