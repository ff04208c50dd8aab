// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package console

import "golang.org/x/sys/unix"

// Discard drops what was typed and not read yet: the answers that a terminal gives
// when old output asks it something.
func (r *Raw) Discard() {
	if r != nil {
		_ = unix.IoctlSetInt(int(r.in.Fd()), unix.TCFLSH, unix.TCIFLUSH) // best effort
	}
}
