// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package cgroup keeps the processes of a run in a control group of their own, where
// the system lets it: limits of the whole run, and an end that nothing gets away from.
package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/shell"
)

// prefix begins the name of every group that is made here.
const prefix = "outlive-"

// Parents returns the directories in which this process may look for a place for a
// group: that of its own group, then those above, innermost first. None where there is
// no cgroup v2. The arguments are the contents of /proc/self/mountinfo and
// /proc/self/cgroup.
func Parents(mountinfo, self string) []string {
	path := ""
	for line := range strings.Lines(self) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			path = p
		}
	}
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "/..") {
		return nil // none, or outside of what this process may see
	}
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		f, kind := strings.Fields(before), strings.Fields(after)
		if len(f) < 5 || len(kind) == 0 || kind[0] != "cgroup2" {
			continue
		}
		root, mount := unescape(f[3]), unescape(f[4])
		rel, err := filepath.Rel(root, path)
		if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
			continue // that mount shows another part of the tree
		}
		var dirs []string
		for dir := filepath.Join(mount, rel); ; dir = filepath.Dir(dir) {
			dirs = append(dirs, dir)
			if dir == mount || len(dir) < len(mount) {
				return dirs
			}
		}
	}
	return nil
}

// unescape reads a path as mountinfo writes it: with \040 for a space.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// Here returns Parents of this process.
func Here() []string {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	self, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	return Parents(string(mounts), string(self))
}

// Needs returns the controllers that limits need.
func Needs(l shell.Limits) (names []string) {
	for name, needed := range map[string]bool{"memory": l.Memory > 0, "pids": l.Pids > 0, "cpu": l.MilliCPU > 0} {
		if needed {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// ErrNone means that no group with the controllers can be made here.
var ErrNone = errors.New("no cgroup v2 can be made here")

// Make makes the group of a run with its limits, in the first of the parents that can
// have one, and returns its directory.
func Make(parents []string, name string, l shell.Limits) (dir string, err error) {
	need := Needs(l)
	why := ErrNone
	for _, parent := range parents {
		dir, err := makeIn(parent, name, need)
		if err != nil {
			why = fmt.Errorf("%w: %w", ErrNone, err)
			continue
		}
		if err := limit(dir, l); err != nil {
			return "", errors.Join(err, Remove(dir))
		}
		return dir, nil
	}
	return "", why
}

func makeIn(parent, name string, need []string) (dir string, err error) {
	dir = filepath.Join(parent, prefix+name)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	if missing := lacks(dir, need); len(missing) > 0 {
		// A group that has processes of its own cannot give controllers to those below.
		err := write(parent, "cgroup.subtree_control", "+"+strings.Join(missing, " +"))
		if err == nil {
			missing = lacks(dir, need)
		}
		if len(missing) > 0 {
			return "", errors.Join(fmt.Errorf("%s has no controller %s", parent, strings.Join(missing, ", ")), err, Remove(dir))
		}
	}
	return dir, nil
}

// lacks returns which of the controllers a group does not have.
func lacks(dir string, need []string) (missing []string) {
	b, _ := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	have := strings.Fields(string(b))
	for _, n := range need {
		if !slices.Contains(have, n) {
			missing = append(missing, n)
		}
	}
	return missing
}

// cpuPeriod is the time in microseconds over which the processor's time is shared out.
const cpuPeriod = 100_000

func limit(dir string, l shell.Limits) error {
	var errs []error
	if l.Memory > 0 {
		errs = append(errs, write(dir, "memory.max", strconv.FormatInt(l.Memory, 10)))
		// Half a command is of no use: all of it ends, and says why.
		if err := write(dir, "memory.oom.group", "1"); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if l.Pids > 0 {
		errs = append(errs, write(dir, "pids.max", strconv.FormatInt(l.Pids, 10)))
	}
	if l.MilliCPU > 0 {
		errs = append(errs, write(dir, "cpu.max", fmt.Sprintf("%d %d", l.MilliCPU*cpuPeriod/1000, cpuPeriod)))
	}
	return errors.Join(errs...)
}

func write(dir, name, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// Add moves a process into the group.
func Add(dir string, pid int) error { return write(dir, "cgroup.procs", strconv.Itoa(pid)) }

// Procs returns the processes in the group and below.
func Procs(dir string) (pids []int) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil //nolint:nilerr // what has gone has no processes
		}
		f, err := os.Open(filepath.Join(path, "cgroup.procs"))
		if err != nil {
			return nil //nolint:nilerr // likewise
		}
		defer f.Close()
		for sc := bufio.NewScanner(f); sc.Scan(); {
			if pid, err := strconv.Atoi(sc.Text()); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	return pids
}

// Kill ends every process in the group and below at once, where the kernel can
// (Linux 5.14).
func Kill(dir string) error { return write(dir, "cgroup.kill", "1") }

// OutOfMemory reports whether the kernel has killed processes of the group because it
// had reached its memory limit.
func OutOfMemory(dir string) bool {
	b, err := os.ReadFile(filepath.Join(dir, "memory.events"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok {
			return n != "0"
		}
	}
	return false
}

// Remove removes an empty group. One that is not there is removed.
func Remove(dir string) error {
	if !strings.HasPrefix(filepath.Base(dir), prefix) {
		return fmt.Errorf("%s is no group of a run", dir)
	}
	var dirs []string
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	slices.Reverse(dirs)
	for _, d := range dirs {
		if err := unix.Rmdir(d); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("remove group %s: %w", d, err)
		}
	}
	return nil
}
