// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package pgtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// quit makes a server stop at once.
const quit = syscall.SIGQUIT

// nobody returns whom a server runs as: PostgreSQL does not run as root.
func nobody() (uid, gid int, err error) {
	if os.Geteuid() != 0 {
		return os.Geteuid(), os.Getegid(), nil
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		return 0, 0, err
	}
	if uid, err = strconv.Atoi(u.Uid); err != nil {
		return 0, 0, err
	}
	gid, err = strconv.Atoi(u.Gid)
	return uid, gid, err
}

// own gives a file to whom the server runs as.
func (c *Cluster) own(path string) error {
	uid, gid, err := nobody()
	if err != nil || os.Geteuid() != 0 {
		return err
	}
	return os.Chown(path, uid, gid)
}

// as makes a program of the server run unprivileged, and end with this process.
func as(cmd *exec.Cmd) error {
	uid, gid, err := nobody()
	if err != nil {
		return err
	}
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGQUIT}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	return nil
}

// childrenOf lists the processes that a process started.
func childrenOf(pid int) (list []int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil
	}
	for word := range strings.FieldsSeq(string(text)) {
		if n, err := strconv.Atoi(word); err == nil {
			list = append(list, n)
		}
	}
	return list
}

// tick is the unit of the kernel's process times.
const tick = 10 * time.Millisecond

// CPU returns what the server's processes have used so far. Those that have ended count
// as their parent's.
func (c *Cluster) CPU() (used time.Duration) {
	if c.server == nil {
		return 0
	}
	pid := c.server.cmd.Process.Pid
	used = times(pid, 4)
	for _, child := range childrenOf(pid) {
		used += times(child, 2)
	}
	return used
}

// times adds up the first n of utime, stime, cutime and cstime of a process.
func times(pid, n int) (sum time.Duration) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	for i := range n {
		ticks, err := strconv.Atoi(fields[11+i])
		if err != nil {
			return 0
		}
		sum += time.Duration(ticks) * tick
	}
	return sum
}
