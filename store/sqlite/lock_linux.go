// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockByte takes a lock on one byte that belongs to the open file, not to the
// process, so that two stores in one process exclude each other too.
func lockByte(f *os.File, at int64, exclusive bool) error {
	l := unix.Flock_t{Type: unix.F_RDLCK, Start: at, Len: 1}
	if exclusive {
		l.Type = unix.F_WRLCK
	}
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &l)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return errBusy
	}
	return err
}

func unlockByte(f *os.File, at int64) {
	_ = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK, Start: at, Len: 1})
}

// networked reports whether dir lies on a network file system.
func networked(dir string) bool {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return false
	}
	switch uint32(st.Type) {
	case unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, 0xff534d42, // CIFS
		unix.V9FS_MAGIC, unix.AFS_SUPER_MAGIC, unix.CODA_SUPER_MAGIC, unix.NCP_SUPER_MAGIC,
		unix.CEPH_SUPER_MAGIC, 0x0bd00bd0, 0x01161970, unix.OCFS2_SUPER_MAGIC: // Lustre, GFS2
		return true
	}
	return false
}

// freeSpace returns the bytes that this user may still write below dir.
func freeSpace(dir string) (n int64, ok bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, false
	}
	return int64(st.Bavail) * st.Bsize, true
}
