// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package placement decides where the supervisor of a command is to live, so that the
// restart of the service it was started by does not end it.
package placement

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/outlive-dev/outlive/fault"
)

// Mode says how a supervisor is detached from its starter.
type Mode string

const (
	// Auto is Scope where Session would not do and systemd can be asked, else Session.
	// The default.
	Auto Mode = "auto"
	// Session gives it a session of its own. It stays in its starter's control group, and
	// a unit that kills its group kills it.
	Session Mode = "session"
	// Scope gives it a transient scope of systemd's.
	Scope Mode = "scope"
)

// ParseMode reads a mode; "" is Auto.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case "":
		return Auto, nil
	case Auto, Session, Scope:
		return m, nil
	}
	return "", fault.Newf(fault.Invalid, "detach mode %q: want auto, session or scope", s)
}

// Facts are what a decision depends on.
type Facts struct {
	// Service is the unit this process belongs to, or "" when it is none of a service.
	Service string
	// KillMode is the unit's, or "" when it is not known.
	KillMode string
	// User says that the unit, or else this process, belongs to the user's own manager.
	User bool
	// Manager says that the manager is there to be asked, with the program Run.
	Manager bool
	Run     string // path of systemd-run, or ""
}

// kills reports whether a restart of the unit ends what it started.
func (f Facts) kills() bool {
	return f.Service != "" && f.KillMode != "process" && f.KillMode != "none"
}

func (f Facts) reachable() bool { return f.Manager && f.Run != "" }

// Decision is where a supervisor is to live.
type Decision struct {
	// Prefix is the beginning of the command line that starts it in a scope, to be
	// followed by its own; nil starts it as it is.
	Prefix []string
	// Must says that it is not to be started otherwise when that fails.
	Must bool
	// Warning is why a restart of the service would end it, or "".
	Warning string
}

// Decide chooses. An error has kind fault.Unsupported.
func Decide(m Mode, f Facts) (Decision, error) {
	scope := []string{f.Run, "--system", "--scope", "--quiet", "--collect", "--no-ask-password"}
	if f.User {
		scope[1] = "--user"
	}
	warning := ""
	if f.kills() {
		mode := f.KillMode
		if mode == "" {
			mode = "unknown"
		}
		warning = fmt.Sprintf("%s has KillMode %s: its restart kills the commands started here", f.Service, mode)
	}
	switch {
	case m == Session:
		return Decision{Warning: warning}, nil
	case m == Scope && !f.reachable():
		return Decision{}, fault.New(fault.Unsupported, "detach mode scope: systemd cannot be asked here")
	case m == Scope:
		return Decision{Prefix: scope, Must: true}, nil
	case f.kills() && f.reachable():
		return Decision{Prefix: scope}, nil
	default:
		return Decision{Warning: warning}, nil
	}
}

// Unit finds the service in the lines of /proc/self/cgroup. user says that it belongs to
// a user's manager.
func Unit(cgroups string) (unit string, user bool) {
	for line := range strings.Lines(cgroups) {
		_, path, _ := strings.Cut(strings.TrimSpace(line), ":/")
		last := path[strings.LastIndexByte(path, '/')+1:]
		if strings.HasSuffix(last, ".service") && !strings.HasPrefix(last, "user@") {
			return last, strings.Contains(path, "/user@")
		}
	}
	return "", false
}

// patience bounds a question to systemd.
const patience = 2 * time.Second

// Look finds the facts of this process. Without a service, and unless all is set, it asks
// nobody.
func Look(ctx context.Context, all bool) Facts {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return Facts{}
	}
	var f Facts
	f.Service, f.User = Unit(string(b))
	if f.Service == "" && !all {
		return f
	}
	f.User = f.User || os.Geteuid() != 0
	f.Run, _ = exec.LookPath("systemd-run")
	f.Manager = there("/run/systemd/system")
	if f.User {
		dir := os.Getenv("XDG_RUNTIME_DIR")
		f.Manager = dir != "" && (there(filepath.Join(dir, "systemd/private")) || there(filepath.Join(dir, "bus")))
	}
	if f.Service != "" {
		f.KillMode = killMode(ctx, f.Service, f.User)
	}
	return f
}

func there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// killMode asks systemd what it does to a unit's processes.
func killMode(ctx context.Context, unit string, user bool) string {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	args := []string{"show", "--property=KillMode", "--value", unit}
	if user {
		args = append([]string{"--user"}, args...)
	}
	c := exec.CommandContext(ctx, "systemctl", args...)
	c.WaitDelay = patience
	out, err := c.Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
