// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Service warns when a service manager would kill commands with the service.
func Service() Check {
	unit := serviceUnit()
	if unit == "" {
		return okf("service", "commands do not belong to a service")
	}
	mode, err := killMode(unit)
	const hint = "set KillMode=process in the unit, or start commands from outside of it"
	switch {
	case err != nil:
		return warnf("service", hint, "runs inside %s, whose KillMode is not known: %v", unit, err)
	case mode == "control-group" || mode == "mixed":
		return warnf("service", hint, "runs inside %s with KillMode=%s: its restart kills the commands started here", unit, mode)
	}
	return okf("service", "runs inside %s with KillMode=%s: commands survive its restart", unit, mode)
}

// unitOf finds the service in the lines of /proc/self/cgroup.
func unitOf(cgroups string) string {
	for line := range strings.Lines(cgroups) {
		_, path, _ := strings.Cut(strings.TrimSpace(line), ":/")
		last := path[strings.LastIndexByte(path, '/')+1:]
		if strings.HasSuffix(last, ".service") && !strings.HasPrefix(last, "user@") {
			return last
		}
	}
	return ""
}

// serviceUnit is the system service this process belongs to, or "".
func serviceUnit() string {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	return unitOf(string(b))
}

// killMode asks systemd what it does to a unit's processes.
func killMode(unit string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "systemctl", "show", "--property=KillMode", "--value", unit).Output()
	if err != nil {
		return "", fmt.Errorf("ask systemctl: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
