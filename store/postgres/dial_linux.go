// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// dialControl makes the kernel give up a connection whose other end does not answer.
func dialControl(network, _ string, c syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(deadPeer.Milliseconds()))
	})
	if err == nil {
		err = failed
	}
	return err
}
