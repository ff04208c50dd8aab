// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/local/internal/cgroup"
)

// groups says which limits of a whole run can be kept here. It finds out by making a
// group, once: what may be done is not written anywhere.
var groups = sync.OnceValue(func() (c shell.Capabilities) {
	parents := cgroup.Here()
	can := func(l shell.Limits) bool {
		dir, err := cgroup.Make(parents, "probe-"+strconv.Itoa(os.Getpid()), l)
		return err == nil && cgroup.Remove(dir) == nil
	}
	if len(parents) > 0 {
		c.Memory, c.Pids, c.CPU = can(shell.Limits{Memory: 1 << 30}), can(shell.Limits{Pids: 100}), can(shell.Limits{MilliCPU: 1000})
	}
	return c
})

// rlimits writes the limits of each process for stage2, as pairs "name=value".
func rlimits(l shell.Limits) string {
	var out []string
	for name, n := range map[string]int64{"nofile": l.Files, "nproc": l.Processes} {
		if n > 0 {
			out = append(out, name+"="+strconv.FormatInt(n, 10))
		}
	}
	return strings.Join(out, ",")
}

// applyRlimits limits this process, which is about to become the command. A core is not
// dumped unless the command asks for it: nobody would look for it here. The size of files
// is never limited, which breaks builds.
func applyRlimits(list string) error {
	var core syscall.Rlimit
	if err := syscall.Getrlimit(unix.RLIMIT_CORE, &core); err == nil {
		core.Cur = 0
		_ = syscall.Setrlimit(unix.RLIMIT_CORE, &core)
	}
	for pair := range strings.SplitSeq(list, ",") {
		name, value, ok := strings.Cut(pair, "=")
		resource, known := map[string]int{"nofile": unix.RLIMIT_NOFILE, "nproc": unix.RLIMIT_NPROC}[name]
		n, err := strconv.ParseUint(value, 10, 64)
		if !ok || !known || err != nil {
			if pair == "" {
				continue
			}
			return fmt.Errorf("limit %q is not known", pair)
		}
		err = syscall.Setrlimit(resource, &syscall.Rlimit{Cur: n, Max: n})
		if errors.Is(err, unix.EPERM) {
			return fmt.Errorf("limit %s: more than this user may have", pair)
		}
		if err != nil {
			return fmt.Errorf("limit %s: %w", pair, err)
		}
	}
	return nil
}

// blame says of a command that was killed, by nobody who asked for it here, that its
// group had used up its memory.
func blame(e *shell.Exit, group string) {
	if group != "" && e.Cause == shell.Exited && e.Signal == "SIGKILL" && cgroup.OutOfMemory(group) {
		e.Reason = shell.ReasonOutOfMemory
	}
}
