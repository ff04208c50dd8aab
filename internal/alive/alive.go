// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package alive proves, between processes of one host, whether a worker is alive:
// each holds an exclusive lock on a file of its own, which the kernel frees when
// the process ends, however it ends. No pid is ever trusted.
package alive

import (
	"os"
	"strings"
)

// Host says where a process runs, as exactly as a proof of death needs.
type Host struct {
	Name  string
	Boot  string // the kernel's boot id; empty where there is none
	PIDNS uint64 // inode of the pid namespace; 0 where there is none
}

// Verdict is what a probe found.
type Verdict uint8

const (
	// Unknown is no proof either way: only the lease counts.
	Unknown Verdict = iota
	// Alive means that the lock is held.
	Alive
	// Dead means that exactly that file is there and nobody holds it.
	Dead
)

// Here describes this process's host.
func Here() Host {
	h := Host{PIDNS: pidNamespace()}
	h.Name, _ = os.Hostname()
	if b, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		h.Boot = strings.TrimSpace(string(b))
	}
	return h
}

// Lock is a held lock file.
type Lock struct {
	f    *os.File
	path string
	dev  uint64
	ino  uint64
}

// Path returns the file's path.
func (l *Lock) Path() string { return l.path }

// Inode identifies the file, so that a prober knows that it looks at the same one.
func (l *Lock) Inode() (dev, ino uint64) { return l.dev, l.ino }

// Release removes the file and frees the lock. Call it after the worker's row is
// gone.
func (l *Lock) Release() error {
	err := os.Remove(l.path)
	if cerr := l.f.Close(); err == nil {
		err = cerr
	}
	return err
}
