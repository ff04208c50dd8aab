// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/local/internal/files"
	"github.com/outlive-dev/outlive/shell/local/internal/proc"
)

// Version of the files of a run: the major must match, the minor may grow.
const (
	protoMajor = 1
	protoMinor = 0
)

// Names of the files of a run.
const (
	nameLock    = "lock"
	nameSpec    = "spec"
	nameCmd     = "cmd"
	nameOwner   = "owner"
	nameStarted = "started"
	nameStop    = "stop"
	nameCtl     = "ctl"
	nameLog     = "shim.log"
	nameExit    = "exit"
	tombSuffix  = ".released"
	trashDir    = "trash"
)

// spec is the record of what was asked for. The environment's values, the argument
// bytes that are used and standard input go to the supervisor by another way.
type spec struct {
	Proto     int             `json:"proto"`
	Minor     int             `json:"minor"`
	Run       shell.RunID     `json:"run"`
	Fence     shell.Fence     `json:"fence"`
	Digest    string          `json:"digest"`
	Shell     bool            `json:"shell,omitempty"`
	Argv      []string        `json:"argv,omitempty"` // for display
	Dir       string          `json:"dir"`
	Timeout   time.Duration   `json:"timeout,omitempty"`
	Grace     time.Duration   `json:"grace"`
	Drain     time.Duration   `json:"drain"`
	DrainCap  time.Duration   `json:"drain_cap"`
	Output    shell.Output    `json:"output"`
	Split     bool            `json:"split,omitempty"`
	Leftovers shell.Leftovers `json:"leftovers"`
	Umask     shell.Umask     `json:"umask,omitempty"`
	StdinOpen bool            `json:"stdin_open,omitempty"`
	TTY       *shell.TTY      `json:"tty,omitempty"`
	Limits    shell.Limits    `json:"limits,omitzero"`
	EnvNames  []string        `json:"env_names,omitempty"`
	EnvByPipe bool            `json:"env_by_pipe,omitempty"`
	CreatedAt time.Time       `json:"created_at"`
}

// started is the record that the command may have been executed.
type started struct {
	Ident     proc.Ident `json:"ident"`
	Shim      proc.Ident `json:"shim"`
	StartedAt time.Time  `json:"started_at"`
	Cgroup    string     `json:"cgroup,omitempty"` // directory of the command's own group
}

// owner is the record of the highest fence seen.
type owner struct {
	Fence shell.Fence `json:"fence"`
}

// stopIntent is the record of a durable stop.
type stopIntent struct {
	Cause  shell.Cause   `json:"cause"`
	Reason string        `json:"reason,omitempty"`
	Grace  time.Duration `json:"grace"`
	Fence  shell.Fence   `json:"fence"`
	At     time.Time     `json:"at"`
}

// tombstone is the record that a run was released.
type tombstone struct {
	Fence shell.Fence `json:"fence"`
	At    time.Time   `json:"at"`
}

// shard returns the last two characters of the task's part of a run id.
func shard(id shell.RunID) string {
	s := string(id)
	if i := strings.LastIndex(s, "-r"); i > 0 && i+2 < len(s) && strings.Trim(s[i+2:], "0123456789") == "" {
		s = s[:i]
	}
	for len(s) < 2 {
		s = "0" + s
	}
	return s[len(s)-2:]
}

func (r *Recoverable) dir(id shell.RunID) string {
	return filepath.Join(r.root, shard(id), string(id))
}

func (r *Recoverable) tomb(id shell.RunID) string { return r.dir(id) + tombSuffix }

// secureRoot makes the runs directory and refuses one that others could change.
func secureRoot(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("open runs: %w", err)
	}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return "", openError(err)
	}
	abs, err = filepath.EvalSymlinks(abs)
	if err != nil {
		return "", openError(err)
	}
	uid, gid := uint32(os.Getuid()), uint32(os.Getgid())
	for p := abs; ; p = filepath.Dir(p) {
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return "", openError(fmt.Errorf("%s: %w", p, err))
		}
		mode := st.Mode & 0o7777
		if p == abs {
			if st.Uid != uid {
				return "", fault.Newf(fault.Forbidden, "open runs: %s belongs to user %d", p, st.Uid)
			}
			if mode&0o077 != 0 {
				if err := os.Chmod(p, 0o700); err != nil {
					return "", openError(err)
				}
			}
		} else if err := ancestorFault(p, st.Uid, st.Gid, mode, uid, gid); err != nil {
			return "", err
		}
		if p == "/" {
			return abs, nil
		}
	}
}

func ancestorFault(p string, owner, group, mode, uid, gid uint32) error {
	if owner != uid && owner != 0 {
		return fault.Newf(fault.Forbidden, "open runs: %s belongs to user %d", p, owner)
	}
	sticky, othersWrite, groupWrite := mode&unix.S_ISVTX != 0, mode&0o002 != 0, mode&0o020 != 0
	if sticky || !othersWrite && (!groupWrite || group == gid) {
		return nil
	}
	e := fault.Newf(fault.Forbidden, "open runs: %s can be written by others (mode %04o)", p, mode)
	return e.WithHint("Choose a directory that only you can write, or take the write permission of others away.")
}

func openError(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: %w", fault.New(fault.Forbidden, "open runs"), err)
	}
	return fmt.Errorf("%w: %w", fault.New(fault.Unavailable, "open runs"), err)
}

// lockFile opens the lock of a run and takes it. how is LOCK_EX or LOCK_SH; busy
// means that somebody else holds it. The lock is that of the file now at the path.
func lockFile(dir string, how, flag int) (f *os.File, busy bool, err error) {
	path := filepath.Join(dir, nameLock)
	for {
		f, err = os.OpenFile(path, flag|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, false, err
		}
		if err := flock(f, how|unix.LOCK_NB); err != nil {
			f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, true, nil
			}
			return nil, false, err
		}
		var mine, there unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &mine); err != nil {
			f.Close()
			return nil, false, err
		}
		if err := unix.Lstat(path, &there); err == nil && there.Ino == mine.Ino && there.Dev == mine.Dev {
			return f, false, nil
		}
		f.Close() // the directory was moved away meanwhile
	}
}

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// withDirLock runs fn while this process alone changes the records that observers
// write (owner, stop). It is held for the time of a small write.
func withDirLock(dir string, fn func() error) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := flock(f, unix.LOCK_EX); err != nil {
		return err
	}
	return fn()
}

// raiseFence stores f as the run's fence, or returns ErrFenced when a higher one is
// stored. The caller holds the directory lock.
func raiseFence(dir string, f shell.Fence) error {
	var o owner
	err := files.Read(filepath.Join(dir, nameOwner), &o)
	switch {
	case err == nil && f.Less(o.Fence):
		return shell.ErrFenced
	case err == nil && o.Fence == f:
		return nil
	case err != nil && !files.NotThere(err) && !errors.Is(err, files.ErrCorrupt):
		return err
	}
	return files.Write(dir, nameOwner, owner{Fence: f}, files.Durability{})
}
