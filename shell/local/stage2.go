// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/shell/local/internal/proc"
)

// Words that make the program a supervisor, or the process that becomes the command.
const (
	argShim   = proc.ShimArg
	argStage2 = "__stage2"
)

// Descriptors of stage2 beyond the three standard ones.
const (
	s2Gate    = 3 // one byte opens it, its end means that the supervisor died
	s2Status  = 4 // an error comes here; it is closed by a successful exec
	s2Payload = 5
)

// Main runs the supervisor, or the process that becomes the command, when args (the
// program's os.Args) ask for that, and then does not return. Otherwise it returns
// false at once. Call it before anything else in main.
func Main(args []string) (handled bool) {
	if len(args) < 3 {
		return false
	}
	switch args[1] {
	case argShim:
		os.Exit(shimMain(args[2], len(args) > 3 && args[3] == argScope)) //nolint:forbidigo // this process is the supervisor
	case argStage2:
		os.Exit(stage2Main(args[2], strings.Join(args[3:], ""))) //nolint:forbidigo // this process becomes the command
	default:
		return false
	}
	return true
}

// aboutToExec is what stage2 reports before it tries to become the command.
const aboutToExec = "x"

// startFailure is what stage2 reports instead of becoming the command.
type startFailure struct {
	code int
	text string
}

// stage2Main sets the process up as the command must find it, waits at the gate,
// and executes the command.
func stage2Main(umask, limits string) int {
	runtime.LockOSThread()
	status := os.NewFile(s2Status, "status")
	for fd := s2Gate; fd <= s2Payload; fd++ {
		unix.CloseOnExec(fd)
	}
	fail := func(f startFailure) int {
		fmt.Fprintf(status, "%d %s", f.code, f.text)
		return f.code
	}
	b, err := io.ReadAll(io.NewSectionReader(os.NewFile(s2Payload, "payload"), 0, 1<<40))
	if err != nil {
		return fail(startFailure{126, err.Error()})
	}
	p, err := decodePayload(b)
	if err != nil {
		return fail(startFailure{126, err.Error()})
	}
	raiseOOMScore()
	resetIgnored()
	var none unix.Sigset_t
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &none, nil)
	if m, err := strconv.ParseUint(umask, 8, 16); err == nil {
		unix.Umask(int(m))
	}
	var gate [1]byte
	for {
		n, err := unix.Read(s2Gate, gate[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n != 1 {
			return 125 // the supervisor died: never execute
		}
		break
	}
	if err := unix.Chdir(p.dir); err != nil {
		return fail(startFailure{126, fmt.Sprintf("directory %s: %v", p.dir, err)})
	}
	if err := applyRlimits(limits); err != nil {
		return fail(startFailure{126, err.Error()})
	}
	if _, err := status.WriteString(aboutToExec); err != nil {
		return 125
	}
	if p.script != "" {
		for _, sh := range []string{"bash", "sh", "/bin/sh"} {
			f := execPath([]string{sh, p.script}, p.env)
			if sh == "/bin/sh" {
				return fail(f)
			}
		}
	}
	return fail(execPath(p.argv, p.env))
}

// resetIgnored gives every signal a handler that was ignored by whoever started the
// supervisor: handlers become the default action by exec, an ignored signal would stay
// ignored. The Go runtime has done so for all but these. A stop must still end this
// process, so that the signals that stop are not taken.
func resetIgnored() {
	sigs := []os.Signal{unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGCONT}
	for _, s := range []os.Signal{unix.SIGHUP, unix.SIGINT} {
		if signal.Ignored(s) {
			sigs = append(sigs, s)
		}
	}
	signal.Notify(make(chan os.Signal, 1), sigs...)
}

// raiseOOMScore makes the kernel prefer the command to its supervisor.
func raiseOOMScore() {
	const path = "/proc/self/oom_score_adj"
	b, err := os.ReadFile(path)
	if err != nil {
		return
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || n > 900 {
		return
	}
	_ = os.WriteFile(path, []byte(strconv.Itoa(n+100)), 0)
}

// searchPath lists where a program without a slash in its name may be.
func searchPath(name string, env []string) (paths []string) {
	path := defaultPath
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v
		}
	}
	for _, dir := range filepath.SplitList(path) {
		if dir == "" {
			dir = "."
		}
		paths = append(paths, dir+"/"+name)
	}
	return paths
}

// execPath executes argv as execvp does and returns only when it cannot: 127 when
// there is no such program, 126 when it cannot be executed.
func execPath(argv, env []string) startFailure {
	name := argv[0]
	paths := []string{name}
	if !strings.Contains(name, "/") {
		paths = searchPath(name, env)
	}
	last := error(syscall.ENOENT)
	for _, p := range paths {
		err := syscall.Exec(p, argv, env)
		if errors.Is(err, syscall.ENOEXEC) {
			err = syscall.Exec("/bin/sh", append([]string{"/bin/sh", p}, argv[1:]...), env)
		}
		switch {
		case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR):
			// A script whose interpreter is missing is there, but not executable.
			if _, serr := os.Stat(p); serr == nil {
				last = fmt.Errorf("%s: bad interpreter: %w", p, syscall.EACCES)
			}
		case errors.Is(err, syscall.EACCES):
			// A directory of PATH that cannot be searched, or one of that name, is not it.
			if st, serr := os.Stat(p); strings.Contains(name, "/") || serr == nil && !st.IsDir() {
				last = err
			}
		default:
			return startFailure{126, fmt.Sprintf("%s: %v", name, err)}
		}
	}
	if errors.Is(last, syscall.ENOENT) {
		if strings.Contains(name, "/") {
			return startFailure{127, fmt.Sprintf("%s: %v", name, last)}
		}
		return startFailure{127, name + ": not found in PATH"}
	}
	return startFailure{126, fmt.Sprintf("%s: %v", name, last)}
}
